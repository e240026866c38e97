"""The loop: data of step s from (seed, s), a step, checkpoints, held-out checks, rollbacks, and whoever wants to know.

Everything random in step s is a function of (seed, s, example), never of a stream: a run is a function of its
configuration, interrupted or not, in one process or in several.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from compvae.batch import Batch
from compvae.errors import DivergenceError, OtherProcessError, OutputError
from compvae.files import reason
from compvae.fitting.calibration import fit_prior
from compvae.fitting.start import start, startable
from compvae.network import CompVAE, Network, seeded_network, unfilled_network
from compvae.noise import Noise
from compvae.problems import Problem
from compvae.train.checkpoint import Checkpoints, RunState, restore, snapshot
from compvae.train.engine import Engine
from compvae.train.schedule import largest_size
from compvae.train.settings import RunConfig
from compvae.train.signals import Signals
from compvae.train.step import FAILED, Step, climbed, first_phase, optimiser_for, train_step
from compvae.train.watch import Watched, watch
from compvae.transport.correlating import CORRECTED_AT, correct_shared_
from compvae.transport.network import Transport
from compvae.transport.starting import fitted_rows, start_transport

__all__ = ["Event", "Observer", "Trainer"]

START = 1 << 39  # added to the seed of a run: wholes that no step trains on
REACHED = 512  # wholes that tell how far from their mean wholes are
PAIRED = 4  # times as many wholes where some share what is drawn once
ELSEWHERE = "process 0 of this run could not go on; its message says why"
HELD_OUT = -1  # the fold of the held-out examples: no training step has this number


@dataclass(frozen=True)
class Event:
    """What observers are told after a step.

    step: steps done.  size: K at most.  seconds: spent on steps by this process.  drawing: of these, spent on data.
    held_out: the held-out bound, where it was computed.  rel_ed: K -> relED of samples, where it was measured.
    not_finite: the K at which samples were not finite.  note: something a person should know.
    """

    step: int
    size: int
    result: Step
    seconds: float
    drawing: float
    held_out: float | None = None
    rel_ed: Mapping[str, float] = field(default_factory=dict)
    not_finite: tuple[str, ...] = ()
    note: str = ""


Observer = Callable[[Event], None]


class Trainer:
    """A model being trained, and all that changes with it."""

    def __init__(self, config: RunConfig, engine: Engine | None = None, measured_only: bool = False) -> None:
        """measured_only: the steps are timed, or a checkpoint comes: what a start costs is saved where it is much."""
        self.config, self.engine = config, engine or Engine()
        self.problem = config.make_problem()
        self.model = self._begun(measured_only).to(self.engine.device, self.engine.dtype)
        self.optimiser = optimiser_for(self.model, config.recipe)
        averaged = config.recipe.average > 0
        self.average = {k: v.clone() for k, v in self.model.state_dict().items()} if averaged else {}
        self.state = RunState()
        self.seconds = self.drawing = 0.0
        self.failure: Exception | None = None  # of an observer, until all processes know of it

    def _begun(self, measured_only: bool) -> Network:
        """The model before its first step."""
        model = seeded_network(self.config.model, self.config.seed)
        if isinstance(model, Transport):
            if not measured_only:
                start_transport(model, self._wholes())
        elif startable(model):
            start(model, lambda noise: self.problem.draw(1, noise), self.config.seed + START)
        return model

    def _wholes(self) -> Batch:
        """Training wholes for what is fitted to many of them at once; no step trains on these draws."""
        several = PAIRED if self.problem.rows_together > 1 else 1  # products of two wholes are noisy
        noise = Noise(self.config.seed + START, several * fitted_rows(self.problem.shape))
        return self.problem.draw(self.problem.max_parts, noise)

    def _correct(self, step: int) -> None:
        """What is measured along training; every process does the same.

        How far wholes reach, once the base is fitted; what they share, a few times.  A structured model's prior, before
        the steps that descend the energy score: they hold it.
        """
        begins = step > 0 and step == first_phase(self.model, self.config.recipe)
        if begins and isinstance(self.model, CompVAE):
            draw = partial(self.problem.draw, self.problem.max_parts)
            fit_prior(self.model, draw, self.config.seed + START, step)
            self.optimiser = optimiser_for(self.model, self.config.recipe)  # the codes were turned
            self.average = {name: self.model.state_dict()[name].clone() for name in self.average}
        if begins and isinstance(self.model, Transport):
            reached = self._wholes().rows(torch.arange(REACHED))
            told = self.model.completed(reached.all_told, Noise(self.config.seed, len(reached)), len(reached))
            self.model.measure_reach_(reached.x, reached.parts, told)
        if (
            isinstance(self.model, Transport)
            and self.problem.rows_together > 1
            and step in [int(share * self.config.recipe.steps) for share in CORRECTED_AT]
        ):
            correct_shared_(self.model, self._wholes(), self.config.seed + START + step)

    # -- one step ------------------------------------------------------------------------------------------------

    def batch(self, step: int) -> tuple[Batch, Noise]:
        """This process's rows of the data of a step, and their noise."""
        rows = self.engine.rows(self.config.recipe.batch, self.problem.rows_together)
        noise = Noise(self.config.seed, rows, step)
        batch = self.problem.draw(self.size(step), noise).to(self.engine.device, self.engine.dtype)
        return batch, noise.to(self.engine.device)

    def size(self, step: int) -> int:
        """K at most at this step."""
        return largest_size(self.config.recipe, step, self.problem.max_parts)

    def advance(self, stop: int = 0) -> Step:
        """Do the next step."""
        started = time.perf_counter()
        step = self.state.step
        self._correct(step)
        batch, noise = self.batch(step)
        self.drawing += time.perf_counter() - started
        result = train_step(
            self.model, self.optimiser, self.config.recipe, batch, noise, step, self.engine, self.state.slower, stop
        )
        self.state.step += 1
        self.state.skipped += not result.applied
        self.state.streak = 0 if result.applied else self.state.streak + 1
        if result.applied:
            self._follow()
        self.seconds += time.perf_counter() - started
        return result

    @torch.no_grad()
    def _follow(self) -> None:
        """average <- decay average + (1 - decay) weights, prior moments included, where one is kept."""
        if not self.average:
            return
        now = self.model.state_dict()
        for name, value in self.average.items():
            value.lerp_(now[name], 1 - self.config.recipe.average)

    @property
    def prior_fitted(self) -> bool:
        """Whether the prior of a structured model was fitted already, along training."""
        return isinstance(self.model, CompVAE) and 0 < first_phase(self.model, self.config.recipe) < self.state.step

    @torch.no_grad()
    def held_out_bound(self) -> float:
        """The bound of wholes that no step trains on, nats a whole; every process computes the same."""
        noise = Noise(self.config.seed, self.config.held_out, HELD_OUT)
        batch = self.problem.draw_held_out(noise).to(self.engine.device, self.engine.dtype)
        model = self.finished()
        with self.engine.autocast():
            return float(climbed(model, batch, noise.to(self.engine.device)).total.double().mean())

    def watched(self) -> Watched:
        """relED of samples, K by K, where that was asked for and the truth is known; one process measures."""
        if self.watched_wholes < 2 or not self.engine.main or not isinstance(self.problem, Problem):
            return Watched()
        return watch(self.finished(), self.problem, self.config.seed, self.watched_wholes, self.prior_fitted)

    @property
    def watched_wholes(self) -> int:
        """Samples of each composition that a check draws; a run of a few steps is not worth many."""
        return min(self.config.watch, self.config.recipe.steps)

    def finished(self) -> Network:
        """The model a user gets: the average where one is kept, in evaluation mode."""
        if not self.average:
            return self.model.eval()
        model = unfilled_network(self.config.model)
        model.load_state_dict(self.average, assign=True)
        return model.eval()

    # -- the run -------------------------------------------------------------------------------------------------

    def run(self, checkpoints: Checkpoints, observers: Sequence[Observer] = ()) -> int:
        """Train to the end.  Returns 0, or the signal by which the run was stopped, after saving."""
        # one process decides: another that comes late would find the first one's checkpoint, and not join in saving
        if self.engine.share(self.state.step == 0 and not checkpoints.paths()):
            self._save(checkpoints)
        with Signals() as signals:
            while self.state.step < self.config.recipe.steps:
                result = self.advance(FAILED if self.failure else signals.number)
                if result.stop == FAILED:
                    raise self.failure or OtherProcessError(ELSEWHERE)
                event = self._after(result, checkpoints)
                if self.engine.main:
                    self._tell(observers, event)
                if result.stop:
                    self._save(checkpoints)
                    return result.stop
                if self._tired():
                    break
        self._save(checkpoints)
        return 0

    def _tell(self, observers: Sequence[Observer], event: Event) -> None:
        """Tell the observers of a step.

        The other processes are on their way into the next sum by now: a failure of an observer waits for that sum, or
        for the one of saving, and there all processes end together.
        """
        try:
            for observer in observers:
                observer(event)
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            self.failure = OutputError(f"{where}cannot write, {reason(error)}; the last checkpoint is intact")
        except Exception as error:  # a defect of an observer: it too must reach the other processes
            self.failure = error
        if self.failure is not None and self.engine.world == 1:
            raise self.failure

    def _after(self, result: Step, checkpoints: Checkpoints) -> Event:
        """Roll back, check, save: what is due after a step."""
        step, note, held_out = self.state.step, "", None
        watched = Watched()
        rolled_back = self.state.streak >= self.config.tolerate
        if rolled_back:
            note = self._roll_back(checkpoints, result)
        elif self.state.streak:
            pass  # in the middle of bad steps nothing is worth checking, or keeping to go back to
        elif step % self.config.check_every == 0 or step == self.config.recipe.steps:
            held_out = self.held_out_bound()
            watched = self.watched()
            better = math.isfinite(held_out) and (self.state.best is None or held_out > self.state.best)
            self.state.best = held_out if better else self.state.best
            self.state.waiting = 0 if better else self.state.waiting + 1
            note = _not_finite(step, held_out, watched)
            if better:
                self._save(checkpoints, best=True)
        if not self.state.streak and not rolled_back and step % self.config.checkpoint_every == 0:
            self._save(checkpoints)
        seen = (held_out, watched.rel_ed, watched.not_finite)
        return Event(step, self.size(step - 1), result, self.seconds, self.drawing, *seen, note)

    def _tired(self) -> bool:
        """True where the held-out bound has not improved for as many checks as patience allows."""
        return 0 < self.config.patience <= self.state.waiting

    def _save(self, checkpoints: Checkpoints, best: bool = False) -> None:
        """One process writes; if it cannot, all of them stop with the same error."""
        tensors, state = snapshot(self.model, self.optimiser, self.average, self.state)
        _require_finite(tensors)
        failure = self.failure
        if self.engine.main:
            try:
                checkpoints.save(tensors, state, best)
            except OutputError as error:
                failure = failure or error
        failed = torch.tensor(float(failure is not None), device=self.engine.device)
        self.engine.sum_([failed])
        if failed:
            raise failure or OtherProcessError(ELSEWHERE)

    def resume(self, checkpoints: Checkpoints) -> str:
        """Take up the newest readable checkpoint; says which, and what was passed over."""
        path, tensors, state, passed = checkpoints.newest()
        restore(tensors, self.model, self.optimiser, self.average)
        self.state = state
        return "; ".join([f"resumed from {path}", *(f"passed over: {why}" for why in passed)])

    def _roll_back(self, checkpoints: Checkpoints, result: Step) -> str:
        """Back to the last checkpoint, with half the rate; give up after a few times."""
        failed, rollbacks = self.state.step, self.state.rollbacks
        if rollbacks >= self.config.rollbacks:
            raise DivergenceError(
                f"training diverges: the {result.fault} was not finite for {self.state.streak} steps in a row "
                f"up to step {failed}, "
                f"also after {rollbacks} rollbacks to a rate of {self.state.slower:g} times the first; "
                f"lower the rate, or look at the data of these steps"
            )
        skipped, slower = self.state.skipped, self.state.slower * 0.5
        self.resume(checkpoints)
        self.state.rollbacks, self.state.slower, self.state.skipped = rollbacks + 1, slower, skipped
        self.state.streak = 0
        return f"the {result.fault} was not finite up to step {failed}: back to step {self.state.step}, rate halved"


def _not_finite(step: int, held_out: float, watched: Watched) -> str:
    """What a check says where it found NaN or infinite values, or nothing; training goes on."""
    found = [] if math.isfinite(held_out) else ["the held-out bound is not finite"]
    if watched.not_finite:
        found.append(f"samples are not finite at K = {', '.join(watched.not_finite)}")
    return f"step {step}: {' and '.join(found)}; training goes on" if found else ""


def _require_finite(tensors: dict[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise DivergenceError(f"training diverged: {name} is not finite; the last checkpoint is intact")
