"""Damaged checkpoints, planted pickles, full disks, mistakes on the command line."""

from __future__ import annotations

import json
import os
import pickle
import random
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

import compvae
import compvae.cli
from compvae.errors import CheckpointError, ConfigError, OutputError
from compvae.train.checkpoint import Checkpoints, RunState, read, restore
from compvae.train.loop import Event, Trainer
from compvae.train.observers import MetricsFile
from compvae.train.runs import train_run
from compvae.train.settings import read_options, read_run, resolve
from compvae.train.step import Step
from runs import TINY, cli, same, tensors_of


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("good")
    tensors = {"model.a": torch.randn(3, 2), "optimiser.step.a": torch.tensor(3.0), "average.a": torch.randn(3, 2)}
    return Checkpoints(directory).save(tensors, RunState(step=7, best=1.5))


def test_a_checkpoint_comes_back_as_it_was(good: Path) -> None:
    tensors, state = read(good)
    assert state == RunState(step=7, best=1.5)
    assert set(tensors) == {"model.a", "optimiser.step.a", "average.a"}


def test_ten_thousand_damaged_checkpoints_are_each_a_clear_error(good: Path, tmp_path: Path) -> None:
    data, dice, path = good.read_bytes(), random.Random(0), tmp_path / "step-000000007.safetensors"
    for index in range(10_000):
        broken = bytearray(data)
        if index % 4 == 0:
            broken = broken[: dice.randrange(len(data))]
        elif index % 4 == 1:
            broken += bytes(dice.randrange(1, 9))
        else:
            for _ in range(dice.choice([1, 1, 3, 20])):
                at = dice.randrange(len(data))
                broken[at] ^= 1 << dice.randrange(8)
        if bytes(broken) == data:
            continue
        path.write_bytes(bytes(broken))
        with pytest.raises(CheckpointError):
            read(path)


class _Bomb:
    def __reduce__(self) -> Any:
        return (os.system, (f"touch {os.environ['COMPVAE_MARKER']}",))


def test_a_planted_pickle_is_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marker = tmp_path / "marker"
    monkeypatch.setenv("COMPVAE_MARKER", str(marker))
    train_run({**TINY, "steps": 2}, tmp_path / "run")
    bomb = pickle.dumps(_Bomb())
    for path in [p for p in (tmp_path / "run").rglob("*") if p.is_file()]:
        kept = path.read_bytes()
        path.write_bytes(bomb)
        for attempt in (lambda: compvae.load(tmp_path / "run"), lambda: train_run({}, tmp_path / "run", resume=True)):
            with suppress(compvae.CompVAEError):
                attempt()
        path.write_bytes(kept)
    assert not marker.exists()


def test_the_newest_readable_checkpoint_is_taken_and_the_others_named(tmp_path: Path, whole: Path) -> None:
    train_run(TINY, tmp_path / "run")
    newest = Checkpoints(tmp_path / "run" / "checkpoints").paths()[-1]
    newest.write_bytes(newest.read_bytes()[:-5])
    outcome = train_run({}, tmp_path / "run", resume=True)
    assert "resumed from" in outcome.message
    assert "step-000000018" in outcome.message
    assert f"passed over: {newest}" in outcome.message
    assert same(tensors_of(tmp_path / "run"), tensors_of(whole))


def test_what_a_killed_save_left_behind_is_cleared_away(tmp_path: Path) -> None:
    train_run({**TINY, "steps": 6}, tmp_path / "run")
    torn = tmp_path / "run" / "checkpoints" / ".step-000000007.safetensors.x1y2"
    torn.write_bytes(b"half")
    train_run({}, tmp_path / "run", resume=True)
    assert not torn.exists()
    assert Checkpoints(torn.parent).paths()


def test_a_checkpoint_of_another_model_is_refused(good: Path) -> None:
    trainer = Trainer(resolve(TINY))
    with pytest.raises(CheckpointError, match=r"of another model|does not have"):
        restore(read(good)[0], trainer.model, trainer.optimiser, trainer.average)


SHORT = ("--steps", "4", "--batch", "4", "--threads", "1", "--quiet")


def test_what_cannot_be_written_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out, limit in ((tmp_path / "file" / "run", None), (tmp_path / "full", 20_000)):
        done = cli("train", "sines", *SHORT, "--out", str(out), limit=limit)
        assert done.returncode == 1, done.stderr
        assert done.stderr.startswith("compvae: ")
        assert done.stderr.count("\n") == 1
    assert [p.name for p in (tmp_path / "full" / "checkpoints").iterdir()] == []


def test_metrics_that_cannot_be_written_are_an_error_of_ours(tmp_path: Path) -> None:
    told = MetricsFile(tmp_path / "metrics.jsonl", every=1)
    (tmp_path / "metrics.jsonl").unlink()
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(OutputError, match=r"metrics\.jsonl: cannot write, Is a directory"):
        told(Event(1, 2, Step(1.0, 0.0, 2.0, applied=True), 0.1, 0.0))


def test_a_full_disk_leaves_the_previous_checkpoint_intact(tmp_path: Path) -> None:
    train_run({**TINY, "steps": 12}, tmp_path / "run")
    before = {p.name: p.read_bytes() for p in (tmp_path / "run" / "checkpoints").iterdir()}
    Checkpoints(tmp_path / "run" / "checkpoints").paths()[-1].unlink()
    done = cli("train", "--resume", "--quiet", "--out", str(tmp_path / "run"), limit=2000)
    assert done.returncode == 1
    assert "cannot write" in done.stderr
    after = {p.name: p.read_bytes() for p in (tmp_path / "run" / "checkpoints").iterdir()}
    assert all(before[name] == data for name, data in after.items())
    assert len(after) == len(before) - 1


@pytest.mark.parametrize(("arguments", "code", "words"), [
    (("train",), 2, "name a problem"),
    (("train", "sinus", *SHORT), 2, "problem 'sinus' is unknown"),
    (("train", "sines", "--preset", "big", *SHORT), 2, "preset 'big' is unknown"),
    (("train", "sines", "--steps", "4", "--minutes", "1"), 2, "--steps and --minutes"),
    (("train", "sines", "--precision", "16", *SHORT), 2, "precision: Input should be"),
    (("train", "sines", "--accelerator", "cuda", *SHORT), 2, "accelerator 'cuda'"),
    (("train", "sines", "--average", "2", *SHORT), 2, "average"),
    (("train", "sines", "--steps", "0"), 2, "--steps"),
    (("train", "--resume"), 3, "there is no run to resume"),
    (("train", "--config", "missing.toml"), 2, "missing.toml: cannot read"),
    (("train", "--config", "bad.toml"), 2, "bad.toml is not valid TOML"),
    (("train", "--config", "odd.toml"), 2, "colour"),
])  # fmt: skip
def test_mistakes_on_the_command_line_are_one_message_without_traceback(
    arguments: tuple[str, ...],
    code: int,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "bad.toml").write_text("problem = ")
    (tmp_path / "odd.toml").write_text('problem = "sines"\nsteps = 3\ncolour = "red"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["compvae", *arguments, "--out", "run"])
    with pytest.raises(SystemExit) as ended:
        compvae.cli.main()
    errors = capfd.readouterr().err
    assert ended.value.code == code, errors
    assert words in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "run" / "config.json").exists()


def test_options_come_from_a_file_and_flags_go_before_it(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('problem = "sines"\nsteps = 3\nbatch = 4\nthreads = 1\n[recipe]\nrate = 0.001\n')
    done = cli("train", "--config", "run.toml", "--steps", "2", "--out", "run", "--json", "--quiet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["steps"] == 2
    stored = json.loads((tmp_path / "run" / "config.json").read_text())["run"]
    assert (stored["recipe"]["rate"], stored["recipe"]["batch"]) == (0.001, 4)


def test_a_dry_run_says_what_it_would_take_and_writes_nothing(tmp_path: Path) -> None:
    done = cli("train", "sines", "--dry-run", "--threads", "1", "--json", "--out", "run", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert found["parameters"] == 12_632
    assert found["minutes"] > 0
    assert list(tmp_path.iterdir()) == []


def test_bfloat16_is_probed_in_a_child_before_it_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("compvae.train.engine.PROBE", "import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    with pytest.raises(ConfigError, match=r"bf16-mixed does not work on this processor \(probe ended with -4\)"):
        train_run({**TINY, "precision": "bf16-mixed"}, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_figure_of_the_terms_is_drawn_and_redrawn(tmp_path: Path) -> None:
    train_run(TINY, tmp_path / "run", show=True)
    figure = (tmp_path / "run" / "curves.svg").read_text()
    assert "<svg" in figure
    assert "w, bits" in figure or "<path" in figure


def test_minutes_become_steps_once_and_are_stored(tmp_path: Path) -> None:
    options = {k: v for k, v in TINY.items() if k not in ("steps", "threads")}
    outcome = train_run(options, tmp_path / "run", minutes=0.01)
    stored = read_run(read_options(tmp_path / "run" / "config.json"), "stored")
    assert stored.recipe.steps == outcome.steps >= 1
    assert stored.threads >= 1
