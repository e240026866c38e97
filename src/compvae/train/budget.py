"""How long a run takes, all of it: its start, its steps, its checks, and the fit when the steps are done.

    seconds(steps) = start + steps * step + checks(steps) * check + batches(steps) * batch

Measured once, before the first step; ``--minutes`` becomes the largest number of steps that fits, which is stored.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from compvae.batch import Batch
from compvae.fitting.calibration import seconds_of_batch, work_of
from compvae.network import Network
from compvae.noise import Noise
from compvae.problems.source import Source
from compvae.train.loop import Trainer
from compvae.train.settings import RunConfig
from compvae.train.step import first_phase

__all__ = ["Costs", "as_in_training", "measure", "step_seconds"]

MEASURED_STEPS = 5
CHECKS_SHARE, FEWEST_WATCHED = 0.05, 20  # of a budget that checks may take, and samples that are worth drawing
MEASURING = 1 << 42  # added to the seed of a run: wholes that nothing else looks at


@dataclass(frozen=True)
class Costs:
    """What pieces of a run take, in seconds.

    start: until the first step, measurements included.  step: at the largest K.  check: held-out bound and samples.
    batch: of the fit when the steps are done.  model: of the run, for the size of that fit.
    """

    start: float
    step: float
    check: float
    batch: float
    model: Network

    def seconds(self, steps: int, check_every: int) -> dict[str, float]:
        """Piece of the run -> seconds."""
        checks = -(-steps // check_every) + 1  # the last one is of the finished model
        return {
            "start": self.start,
            "steps": steps * self.step,
            "checks": checks * self.check,
            "fits": work_of(self.model, steps) * self.batch,
        }

    def total(self, steps: int, check_every: int) -> float:
        """Seconds of the whole run; never less with more steps."""
        return sum(self.seconds(steps, check_every).values())

    def steps_within(self, minutes: float, check_every: int) -> int:
        """The most steps whose run fits into these minutes, at least 1."""
        low, high = 1, max(1, int(60 * minutes / max(self.step, 1e-9)))
        while low < high:
            middle = (low + high + 1) // 2
            fits = self.total(middle, check_every) <= 60 * minutes
            low, high = (middle, high) if fits else (low, middle - 1)
        return low

    def fewer_samples(self, minutes: float, check_every: int, watch: int) -> tuple[int, Costs]:
        """How many samples a check may draw, at most ``watch``, and what the run takes then.

        Where samples are slow (images), the checks of a short run would take what its steps need.
        """
        checks = self.seconds(self.steps_within(minutes, check_every), check_every)["checks"]
        share = CHECKS_SHARE * 60 * minutes / max(checks, 1e-9)
        if share >= 1:
            return watch, self
        fewer = int(share * watch)
        return fewer if fewer >= FEWEST_WATCHED else 0, replace(self, check=share * self.check)


def as_in_training(problem: Source, noise: Noise) -> Batch:
    """Wholes as in the last steps of training."""
    return problem.draw(problem.max_parts, noise)


def step_seconds(trainer: Trainer) -> tuple[float, float]:
    """Seconds of a step at the largest K (median of a few), and the bound after them.

    Where the first steps are of another kind, the mean over both kinds.
    """
    steps = trainer.config.recipe.steps
    share = first_phase(trainer.model, trainer.config.recipe) / steps
    early = _timed(trainer, 0)[0] if share else 0.0
    late, bound = _timed(trainer, steps - 1)
    return share * early + (1 - share) * late, bound


def _timed(trainer: Trainer, step: int) -> tuple[float, float]:
    """Seconds of this step, done a few times, and the bound after that."""
    trainer.state.step = step
    times, bound = [], 0.0
    for _ in range(MEASURED_STEPS):
        started = time.perf_counter()
        bound = trainer.advance().bound
        times.append(time.perf_counter() - started)
        trainer.state.step -= 1
    return sorted(times)[len(times) // 2], bound


def measure(config: RunConfig, spent: float = 0.0) -> tuple[Costs, float]:
    """What this run takes here and now with torch's threads as they are, and the bound after a few steps.

    spent: seconds of measurements before this one.
    """
    started = time.perf_counter()
    trainer = Trainer(config, measured_only=True)
    begun = time.perf_counter() - started
    step, bound = step_seconds(trainer)
    checked = time.perf_counter()
    trainer.held_out_bound()
    trainer.watched()
    check = time.perf_counter() - checked
    model = trainer.finished().float().cpu()
    batch = seconds_of_batch(model, lambda noise: as_in_training(trainer.problem, noise), config.seed + MEASURING)
    measuring = time.perf_counter() - started
    return Costs(spent + measuring + begun, step, check, batch, model), bound
