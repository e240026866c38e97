"""A check of a run never ends it; a model whose samples are not finite in the end is refused, exit 4."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

import compvae
from compvae import problems
from compvae.baselines.paper import narrowed
from compvae.distributions import Normal
from compvae.errors import DivergenceError
from compvae.network import CompVAE
from compvae.train.loop import Trainer
from compvae.train.runs import train_run
from compvae.train.settings import resolve
from compvae.train.watch import require_finite_samples
from dataset_files import write_kinds
from runs import AMORTISED, TINY, cli

SINES = problems.get("sines")
PAPER: dict[str, Any] = {  # the paper's networks, narrowed, with a rate at which they diverge at once
    "steps": 4, "batch": 4, "threads": 1, "held_out": 4, "check_every": 1, "watch": 4, "rate": 1e8,
    "model": narrowed(SINES, 0).model_dump(mode="json"),
}  # fmt: skip


def strictly(path: Path) -> list[dict[str, Any]]:
    """The lines of a metrics.jsonl, as a reader takes them that knows no NaN."""

    def refuse(text: str) -> float:
        raise AssertionError(text)

    return [json.loads(line, parse_constant=refuse) for line in path.read_text().splitlines()]


def spoil_checks(monkeypatch: pytest.MonkeyPatch, steps: range) -> None:
    """Outside of training steps, and after these many of them, the decoder gives NaN."""
    advance = Trainer.advance

    def hooked(self: Trainer, stop: int = 0) -> Any:
        def spoil(module: torch.nn.Module, given: Any, out: Normal) -> Normal:
            bad = not module.training and self.state.step in steps
            return Normal(out.mean * math.nan, out.variance) if bad else out

        if not self.model.decoder._forward_hooks:
            self.model.decoder.register_forward_hook(spoil)
        return advance(self, stop)

    monkeypatch.setattr(Trainer, "advance", hooked)


def test_a_check_that_finds_nan_says_so_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    spoil_checks(monkeypatch, range(9, 10))
    outcome = train_run({**AMORTISED, "average": 0.0}, tmp_path / "run", show=True)
    assert (outcome.steps, outcome.skipped) == (24, 0)
    lines = {line["step"]: line for line in strictly(tmp_path / "run" / "metrics.jsonl") if "held_out" in line}
    assert lines[9]["held_out"] is None
    assert lines[9]["rel_ed"] == {"2": None, "16": None, "64": None}
    assert lines[9]["not_finite"] == ["2", "16", "64"]
    note = "step 9: the held-out bound is not finite and samples are not finite at K = 2, 16, 64; training goes on"
    assert lines[9]["note"] == note
    assert " ".join(note.split()) in " ".join(capfd.readouterr().err.split())
    for step in (18, 24):
        assert math.isfinite(lines[step]["held_out"])
        assert all(math.isfinite(value) for value in lines[step]["rel_ed"].values())
        assert not {"not_finite", "note"} & set(lines[step])
    assert torch.isfinite(torch.from_numpy(compvae.load(tmp_path / "run").sample({"3": 2}, n=8))).all()


def test_samples_that_are_not_finite_in_the_end_are_an_error_of_their_own_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil_checks(monkeypatch, range(24, 25))
    with pytest.raises(
        DivergenceError, match=r"not finite at K = 2 \(mean of x\), 16 .*, 64 .*, after 24 steps; no model"
    ):
        train_run({**AMORTISED, "average": 0.0}, tmp_path / "run")
    # what a diverged run leaves: everything but a model
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["checkpoints", "config.json", "metrics.jsonl"]
    assert (tmp_path / "run" / "checkpoints" / "step-000000024.safetensors").exists()
    monkeypatch.undo()  # the weights are fine: taken up again, the run ends with its model
    train_run({}, tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "model").is_dir()


def test_the_papers_networks_that_diverge_are_not_ended_by_their_check(tmp_path: Path) -> None:
    """Before: DataError "model holds NaN or infinite values", out of fit, at the first check."""
    with pytest.raises(DivergenceError, match="after 4 steps, 3 of them skipped as not finite; no model was written"):
        compvae.fit("sines", out=tmp_path / "run", **PAPER)
    lines = strictly(tmp_path / "run" / "metrics.jsonl")
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert lines[0]["not_finite"] == ["2", "16", "64"]


def test_on_the_command_line_that_is_exit_4_and_one_sentence(tmp_path: Path) -> None:
    """Before: exit 1 and a traceback of torch.linalg.eigh."""
    (tmp_path / "run.toml").write_text(
        'problem = "sines"\nsteps = 6\nbatch = 8\nthreads = 1\nrate = 1e30\ncheck_every = 1\nheld_out = 8\n'
        "settings = {timesteps = 12, resolution = 6}\n"
    )
    done = cli("train", "--config", "run.toml", "--out", "run", "--quiet", cwd=tmp_path)
    assert done.returncode == 4, done.stderr
    assert done.stderr.startswith("compvae: training diverged: ")
    assert done.stderr.count("\n") == 1
    assert "no model was written" in done.stderr
    assert not (tmp_path / "run" / "model").exists()


@torch.no_grad()
def test_own_data_whose_truth_is_not_known_is_looked_at_too(tmp_path: Path) -> None:
    options = {"problem": str(write_kinds(tmp_path / "data", shared=False)), "preset": "sums", "threads": 1}
    config = resolve(options)
    source = config.make_problem()
    model = CompVAE.seeded(config.model, 0).eval()
    require_finite_samples(model, source, 0, 2)
    model.prior.mean.fill_(math.inf)  # type: ignore[union-attr, operator]
    with pytest.raises(DivergenceError, match=rf"not finite at K = 1 to {source.max_parts} \(w\)"):
        require_finite_samples(model, source, 0, 2)


@pytest.mark.parametrize("run", [TINY, AMORTISED])
def test_a_watched_model_is_not_changed_by_a_check_that_fails(run: dict[str, Any]) -> None:
    trainer = Trainer(resolve({**run, "average": 0.0}))
    with torch.no_grad():
        trainer.model.prior.mean.fill_(math.inf)  # type: ignore[union-attr, operator]
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    found = trainer.watched()
    assert found.not_finite == ("2", "16", "64")
    assert all(math.isnan(value) for value in found.rel_ed.values())
    assert all(torch.equal(before[name], value) for name, value in trainer.model.state_dict().items())
