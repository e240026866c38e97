"""What a training step needs: memory now and by count, and operations, from which the time elsewhere follows.

bytes of weights, gradients and Adam's two moments = 16 * parameters
hours on a device = steps * operations / speed
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from compvae.train.loop import Trainer

__all__ = ["GTX_1080", "Needs", "largest_resident", "needs", "operations"]

GTX_1080 = 8.9  # TFLOP/s in float32 by its data sheet: the device of the paper (section 4.3)
STATES = 4  # numbers kept for each weight: itself, its gradient, Adam's two moments
BYTES = 4  # of a float32


@dataclass(frozen=True)
class Needs:
    """What one step needs.

    megabytes: the most this process has held so far.  states: of these, weights, gradients and moments.
    operations: multiplications and additions in the products and convolutions of a step at the largest K.
    """

    megabytes: float
    states: float
    operations: int

    def hours(self, steps: int, tflops: float) -> float:
        """So many steps on a device that does so many 10^12 operations a second, all the time."""
        return steps * self.operations / (tflops * 1e12) / 3600


def needs(trainer: Trainer) -> Needs:
    """Do one step as it is at the end of training, counting."""
    trainer.state.step = trainer.config.recipe.steps - 1
    counted = operations(trainer.advance)
    weights = sum(value.numel() for value in trainer.model.parameters())
    return Needs(largest_resident(), STATES * BYTES * weights / 2**20, counted)


def operations(work: Callable[[], object]) -> int:
    """Multiplications and additions in matrix products and convolutions, forward and backward."""
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    counter.mod_tracker = _NoModules()  # type: ignore[assignment]  # hooks do not go with gradients inside a step
    with counter:
        work()
    return int(counter.get_total_flops())


class _NoModules:
    """In the place of what tells a counter of operations in which module they are done."""

    parents = ("Global",)

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


def largest_resident() -> float:
    """Largest resident size of this process so far, megabytes."""
    status = Path("/proc/self/status")
    held = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")] if status.exists() else []
    if held:
        return int(held[0].split()[1]) / 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 1024**2 if sys.platform == "darwin" else most / 1024
