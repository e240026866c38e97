"""Runs: exact resume, what is kept, fit, early stopping."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import compvae
import compvae.cli
from compvae.errors import ConfigError, OutputError
from compvae.train.checkpoint import Checkpoints, read, restore, snapshot
from compvae.train.loop import Trainer
from compvae.train.runs import train_run
from compvae.train.settings import read_options, resolve
from runs import AMORTISED, TINY, metrics_of, same, tensors_of


class _Stop(Exception):  # noqa: N818
    pass


def interrupt_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Break off after this many steps, as a crash would: nothing is saved on the way out."""
    advance = Trainer.advance

    def broken(self: Trainer, stop: int = 0) -> Any:
        if self.state.step == step:
            raise _Stop
        return advance(self, stop)

    monkeypatch.setattr(Trainer, "advance", broken)


@pytest.mark.parametrize("step", [1, 5, 6, 13, 23])
def test_a_run_that_crashed_and_was_resumed_equals_the_uninterrupted_one(
    step: int, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        interrupt_at(step, patch)
        with pytest.raises(_Stop):
            train_run(TINY, tmp_path / "run")
    outcome = train_run({}, tmp_path / "run", resume=True)
    assert f"step-{step // 6 * 6:09d}" in outcome.message
    assert same(tensors_of(tmp_path / "run"), tensors_of(whole))
    assert metrics_of(tmp_path / "run") == metrics_of(whole)
    x, y = (compvae.load(run).sample({"3": 2}, n=4) for run in (tmp_path / "run", whole))
    assert np.array_equal(x, y)


def test_resuming_at_every_save_of_every_preset_is_exact(tmp_path: Path) -> None:
    """The colours too: iterative inference, pixel subsets, a late M-step."""
    options = {**TINY, "problem": "colours", "steps": 6, "batch": 2, "checkpoint_every": 3, "settings": {"size": 8}}
    trainer = Trainer(resolve(options))
    checkpoints = Checkpoints(tmp_path / "checkpoints", keep=9)
    trainer.run(checkpoints)
    end, _ = snapshot(trainer.model, trainer.optimiser, trainer.average, trainer.state)
    for path in checkpoints.paths():
        again = Trainer(resolve(options))
        tensors, state = read(path)
        restore(tensors, again.model, again.optimiser, again.average)
        again.state = state
        while again.state.step < 6:
            again.advance()
        assert same(snapshot(again.model, again.optimiser, again.average, again.state)[0], end), path


def test_the_last_checkpoints_and_the_best_are_kept(whole: Path) -> None:
    names = sorted(path.name for path in (whole / "checkpoints").iterdir())
    assert names == ["best.safetensors", *(f"step-{s:09d}.safetensors" for s in (12, 18, 24))]
    held_out = [line["held_out"] for line in metrics_of(whole) if "held_out" in line]
    assert len(held_out) == 3
    assert read(whole / "checkpoints" / "best.safetensors")[1].best == max(held_out)


def test_a_directory_can_be_run_again_from_its_own_configuration(whole: Path, tmp_path: Path) -> None:
    train_run(read_options(whole / "config.json"), tmp_path / "again")
    assert same(tensors_of(tmp_path / "again"), tensors_of(whole))
    assert (tmp_path / "again" / "config.json").read_bytes() == (whole / "config.json").read_bytes()


def test_the_moving_average_is_the_model_and_includes_the_prior(tmp_path: Path) -> None:
    train_run(AMORTISED, tmp_path / "run")
    tensors, model = tensors_of(tmp_path / "run"), compvae.load(tmp_path / "run").network.state_dict()
    for name, value in model.items():
        assert torch.equal(value, tensors[f"average.{name}"]), name
    assert not torch.equal(tensors["average.prior.mean"], tensors["model.prior.mean"])


def test_fit_returns_the_model_its_metrics_and_its_directory(tmp_path: Path) -> None:
    run = compvae.fit("sines", out=tmp_path / "run", steps=3, seed=1, batch=4, threads=1)
    assert run.directory == tmp_path / "run"
    assert [line["step"] for line in run.metrics] == [3]
    assert run.model.sample({"3": 1}, n=2).shape == (2, 200)
    with pytest.raises(OutputError, match="is not empty; go on with its run by --resume"):
        compvae.fit("sines", out=tmp_path / "run", steps=3)
    with pytest.raises(ConfigError, match=r"steps is 3 .* not 5"):
        compvae.fit("sines", out=tmp_path / "run", steps=5, seed=1, resume=True)


def test_patience_stops_the_run_and_keeps_the_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = iter([1.0, 3.0, 2.0, 2.5, 2.0, 9.0, 9.0])
    monkeypatch.setattr(Trainer, "held_out_bound", lambda self: next(bounds))
    outcome = train_run({**AMORTISED, "check_every": 2, "patience": 3, "average": 0.0}, tmp_path / "run")
    assert outcome.steps == 10
    best, state = read(tmp_path / "run" / "checkpoints" / "best.safetensors")
    assert (state.step, state.best) == (4, 3.0)
    for name, value in compvae.load(tmp_path / "run").network.state_dict().items():
        assert torch.equal(value, best[f"model.{name}"])
