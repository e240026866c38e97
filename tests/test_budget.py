"""The fit when the steps are done: counted beforehand, told of batch by batch, part of every estimate of time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from compvae import problems
from compvae.batch import Batch
from compvae.errors import ConfigError
from compvae.fitting.calibration import BATCHES, ROUNDS, fit_prior, seconds_of_batch, work_of
from compvae.network import CompVAE
from compvae.noise import Noise
from compvae.presets import structured_preset
from compvae.train.budget import Costs
from compvae.train.observers import FitProgress
from compvae.train.runs import estimate, train_run
from compvae.train.settings import read_options, read_run
from dataset_files import write_kinds
from models import invertible
from runs import TINY, cli, same, tensors_of

SINES = problems.get("sines", **TINY["settings"])
STEPS = 60  # of a run that is worth a short fit


def calibrated() -> CompVAE:
    return CompVAE.seeded(structured_preset(SINES, "small"), 0)


def draw(noise: Noise) -> Batch:
    return SINES.draw(4, noise)


def test_every_batch_is_counted_beforehand_and_told_of() -> None:
    heard: list[int] = []
    fit_prior(calibrated(), draw, 5, STEPS, lambda: heard.append(1))
    assert len(heard) == work_of(calibrated(), STEPS) == 2 * ROUNDS
    assert work_of(calibrated(), 10**6) == BATCHES * ROUNDS


def test_an_invertible_model_has_nothing_to_fit_at_the_end() -> None:
    own = invertible()
    before = {name: value.clone() for name, value in own.state_dict().items()}
    fit_prior(own, draw, 5, STEPS)
    assert same(own.state_dict(), before)
    assert (work_of(own, STEPS), seconds_of_batch(own, draw, 5)) == (0, 0.0)


def test_who_listens_and_who_measures_changes_nothing() -> None:
    quiet, told = calibrated(), calibrated()
    fit_prior(quiet, draw, 5, STEPS)
    before = torch.get_rng_state()
    assert seconds_of_batch(told, draw, 5) > 0
    assert torch.equal(before, torch.get_rng_state())
    assert same(calibrated().state_dict(), told.state_dict())
    fit_prior(told, draw, 5, STEPS, lambda: None)
    assert same(quiet.state_dict(), told.state_dict())


def costs(step: float, batch: float = 0.0, start: float = 0.0, check: float = 0.0) -> Costs:
    return Costs(start, step, check, batch, calibrated())


def test_minutes_are_those_of_the_whole_run() -> None:
    """Before: minutes * 60 / seconds of a step, whatever the rest of the run takes."""
    alone = costs(0.5)
    assert alone.steps_within(10, 500) == 1200
    everything = costs(0.5, 2.0, start=20, check=5)
    steps = everything.steps_within(10, 500)
    assert everything.total(steps, 500) <= 600 < everything.total(steps + 1, 500)
    found = everything.seconds(steps, 500)
    assert found["start"] == 20
    assert found["steps"] == steps * 0.5
    assert found["checks"] == 5 * (2 + 1)
    assert found["fits"] == 2.0 * ROUNDS * (1 + steps // 50)
    assert costs(2.0).steps_within(0.01, 500) == 1


def test_an_estimate_is_the_sum_of_start_steps_checks_and_fits() -> None:
    found = estimate(TINY)
    assert found.minutes == pytest.approx(sum(found.minutes_of.values()))
    assert set(found.minutes_of) == {"start", "steps", "checks", "fits"}
    assert all(value > 0 for value in found.minutes_of.values())
    assert found.steps == TINY["steps"]
    assert estimate({k: v for k, v in TINY.items() if k != "steps"}, minutes=1e-6).steps == 1


def test_a_dry_run_says_all_of_it(tmp_path: Path) -> None:
    """Before: "about .. minutes of steps"."""
    done = cli("train", "sines", "--dry-run", "--threads", "1", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "3,000 steps take about" in done.stdout
    assert all(word in done.stdout for word in ("start", "steps", "checks", "fits"))
    assert list(tmp_path.iterdir()) == []


def test_the_estimate_is_stored_and_a_resumed_run_keeps_its_steps(tmp_path: Path) -> None:
    options = {k: v for k, v in TINY.items() if k != "steps"}
    train_run(options, tmp_path / "run", minutes=1e-6)
    stored = json.loads((tmp_path / "run" / "estimate.json").read_text())
    assert stored["minutes"] == 1e-6
    assert set(stored["seconds"]) == {"start", "steps", "checks", "fits"}
    assert stored["steps"] == read_run(read_options(tmp_path / "run" / "config.json"), "stored").recipe.steps == 1
    before = (tmp_path / "run" / "config.json").read_bytes()
    train_run({}, tmp_path / "run", resume=True, minutes=5.0)
    assert (tmp_path / "run" / "config.json").read_bytes() == before
    with pytest.raises(ConfigError, match="steps is 1"):
        train_run({"steps": 9}, tmp_path / "run", resume=True)


def test_a_run_says_what_it_fits_and_for_how_long(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Before: silence after the last step; with or without a listener the model is the same."""
    train_run(TINY, tmp_path / "shown", show=True)
    heard = " ".join(capfd.readouterr().err.split())
    assert "all steps are done; now fitting the prior's moments (2): about 0:0" in heard
    assert "2/2" in heard
    train_run(TINY, tmp_path / "quiet")
    assert same(tensors_of(tmp_path / "shown"), tensors_of(tmp_path / "quiet"))
    weights = [(tmp_path / name / "model" / "model.safetensors").read_bytes() for name in ("shown", "quiet")]
    assert weights[0] == weights[1]


def test_progress_says_how_far_the_fit_is(capfd: pytest.CaptureFixture[str]) -> None:
    progress = FitProgress(10, 13.0)
    for _ in range(3):
        progress()
    task = progress.bar.tasks[0]
    assert (task.completed, task.total) == (3.0, 10.0)
    progress.close()
    heard = " ".join(capfd.readouterr().err.split())
    assert "now fitting the prior's moments (10): about 2:10" in heard
    assert "3/10" in heard


def test_own_data_is_estimated_too(tmp_path: Path) -> None:
    options: dict[str, Any] = {"problem": str(write_kinds(tmp_path / "kinds")), "threads": 1, "steps": 200, "batch": 16}
    options["preset"] = "small"  # the invertible model has no fits at the end
    assert estimate(options).minutes_of["fits"] > 0


def test_checks_take_a_small_share_of_a_budget_unless_they_are_asked_for() -> None:
    cheap, dear = costs(0.1, check=0.01), costs(0.1, check=10.0)
    assert cheap.fewer_samples(2.0, 500, 200) == (200, cheap)
    watch, left = dear.fewer_samples(2.0, 500, 200)
    assert watch == 0 or left.check / dear.check == pytest.approx(watch / 200, abs=0.01)
    steps = left.steps_within(2.0, 500)
    assert steps > dear.steps_within(2.0, 500)
    assert left.seconds(steps, 500)["checks"] <= 0.2 * 120  # more steps have more checks


def test_a_dry_run_says_what_a_step_needs_and_for_how_long_it_would_run_elsewhere() -> None:
    found = estimate(TINY, tflops=2.0)
    assert found.needs.states == pytest.approx(16 * found.parameters / 2**20)
    assert found.needs.megabytes > found.needs.states
    assert found.device_hours == pytest.approx(found.steps * found.needs.operations / 2e12 / 3600)
    assert estimate({**TINY, "batch": 16}).needs.operations == pytest.approx(2 * found.needs.operations, rel=0.1)


def test_a_speed_without_a_dry_run_is_refused(tmp_path: Path) -> None:
    done = cli("train", "sines", "--tflops", "9", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--tflops does nothing without --dry-run" in done.stderr
