"""What is not finite never reaches weights, prior or checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from compvae.batch import Batch
from compvae.errors import DivergenceError
from compvae.noise import Noise
from compvae.train.checkpoint import Checkpoints, read
from compvae.train.loop import Trainer
from compvae.train.settings import resolve
from runs import AMORTISED, TINY

RUNS = {"newton": TINY, "collapsed": AMORTISED}


def poison_data(trainer: Trainer, steps: range) -> None:
    draw = trainer.batch

    def spoiled(step: int) -> tuple[Batch, Noise]:
        batch, noise = draw(step)
        return (Batch(batch.x * float("nan"), batch.parts) if step in steps else batch), noise

    trainer.batch = spoiled  # type: ignore[method-assign]


def poison_gradient(trainer: Trainer, steps: range) -> None:
    parameter = next(trainer.model.decoder.parameters())
    parameter.register_hook(lambda grad: grad * float("inf") if trainer.state.step in steps else grad)


def poison_statistics(trainer: Trainer, steps: range) -> None:
    prior = trainer.model.prior
    statistics = prior.statistics  # type: ignore[union-attr]

    def spoiled(*arguments: Any) -> Any:
        found = statistics(*arguments)  # type: ignore[operator]
        if trainer.state.step in steps:
            found.square[0, 0] = float("nan")
        return found

    prior.statistics = spoiled  # type: ignore[assignment]


def in_output(find: Callable[[Trainer], torch.nn.Module]) -> Callable[[Trainer, range], None]:
    """NaN in the output of a layer."""

    def poison(trainer: Trainer, steps: range) -> None:
        find(trainer).register_forward_hook(
            lambda m, i, out: out * (float("nan") if trainer.state.step in steps else 1.0)
        )

    return poison


def in_gradient(find: Callable[[Trainer], torch.nn.Module]) -> Callable[[Trainer, range], None]:
    """Infinity in the gradient of a layer's weights."""

    def poison(trainer: Trainer, steps: range) -> None:
        for parameter in find(trainer).parameters():
            parameter.register_hook(lambda grad: grad * float("inf") if trainer.state.step in steps else grad)

    return poison


def linear_layers(trainer: Trainer) -> list[torch.nn.Module]:
    return [layer for layer in trainer.model.decoder.modules() if isinstance(layer, torch.nn.Linear)]


POISONS = {
    "first layer of q": in_output(lambda t: t.model.posterior.network[0]),  # type: ignore[index, union-attr]
    "residual block of q": in_output(lambda t: t.model.posterior.network[2]),  # type: ignore[index, union-attr]
    "message of q": in_output(lambda t: t.model.posterior.network[-1]),  # type: ignore[index, union-attr]
    "first layer of the link": in_output(lambda t: linear_layers(t)[0]),
    "output of the link": in_output(lambda t: linear_layers(t)[-1]),
    "gradient of q": in_gradient(lambda t: t.model.posterior),
    "gradient of the last layer": in_gradient(lambda t: linear_layers(t)[-1]),
    "data": poison_data,
    "gradient": poison_gradient,
    "statistics": poison_statistics,
}


CASES = [(run, poison) for run in RUNS for poison in POISONS if run == "collapsed" or "q" not in poison.split()]


def all_finite(directory: Path) -> bool:
    return all(torch.isfinite(t).all() for path in directory.glob("*") for t in read(path)[0].values())


@pytest.mark.parametrize(("run", "poison"), CASES)
def test_a_few_bad_steps_are_skipped_and_counted(run: str, poison: str, tmp_path: Path) -> None:
    trainer, seen = Trainer(resolve({**RUNS[run], "tolerate": 4})), []
    POISONS[poison](trainer, range(7, 10))
    assert trainer.run(Checkpoints(tmp_path), [seen.append]) == 0
    assert trainer.state.skipped == 3
    assert [event.result.applied for event in seen].count(False) == 3
    assert all_finite(tmp_path)


@pytest.mark.parametrize(("run", "poison"), CASES)
def test_bad_steps_without_end_are_rolled_back_then_given_up(run: str, poison: str, tmp_path: Path) -> None:
    trainer, notes = Trainer(resolve({**RUNS[run], "tolerate": 3, "rollbacks": 2})), []
    POISONS[poison](trainer, range(7, 10**9))
    with pytest.raises(DivergenceError, match=r"for 3 steps in a row up to step 10, also after 2 rollbacks .* 0\.25"):
        trainer.run(Checkpoints(tmp_path), [lambda event: notes.append(event.note)])
    assert [note for note in notes if note] == [
        f"the {trainer_fault} was not finite up to step 10: back to step 6, rate halved"
        for trainer_fault in [_fault_name(poison)] * 2
    ]
    assert all_finite(tmp_path)


def _fault_name(poison: str) -> str:
    return "gradient" if "gradient" in poison else "prior statistics" if poison == "statistics" else "loss"


def test_a_rollback_that_helps_lets_the_run_finish(tmp_path: Path) -> None:
    trainer = Trainer(resolve({**TINY, "tolerate": 3}))
    draw = trainer.batch
    # bad only at the full rate: a stand-in for a step size that was too large
    trainer.batch = lambda step: (  # type: ignore[method-assign]
        (Batch(draw(step)[0].x * float("nan"), draw(step)[0].parts), draw(step)[1])
        if step in range(7, 12) and trainer.state.slower == 1
        else draw(step)
    )
    assert trainer.run(Checkpoints(tmp_path)) == 0
    assert (trainer.state.step, trainer.state.rollbacks, trainer.state.slower) == (24, 1, 0.5)
