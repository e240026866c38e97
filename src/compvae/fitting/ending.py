"""What is fitted when all steps of training are done, counted in units before it begins.

The fits take as long as the steps on models with a mixture: a person should know what is being done and for how long,
and a budget of minutes has to count them.  So every fit says beforehand how many units of each kind of work it will do
(:func:`work_of`), tells of each one that is done (:data:`~compvae.nn.descent.Tick`), and what a unit takes can be
measured on a few of them (:meth:`UnitSeconds.measured`).
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from compvae.fitting import calibration, shaping
from compvae.fitting.calibration import Draw, calibratable, calibrate
from compvae.fitting.seen import look
from compvae.fitting.shaping import DAYS, MOMENTS, SHAPES, WHOLES, shape_parts, shaped
from compvae.network import Network
from compvae.noise import Noise
from compvae.prior import TablePrior
from compvae.prior.given_context import ContextPrior
from compvae.transport.network import Transport

__all__ = ["WORTH_SHAPING", "Told", "UnitSeconds", "fit_prior", "work_of"]

WORTH_SHAPING = 100  # steps; before that the latents mean too little to have a shape
PRIOR = "fitting the prior's moments"
FEW, FOLD = 4, 1 << 20  # units that a measurement does, and of noise of its own

Told = Callable[[str], None]
"""Hears of each unit that is done, by the name of its kind of work."""


def _batches(steps: int) -> int:
    """Of the calibration; a short run is not worth a long fit."""
    return min(calibration.BATCHES, 1 + steps // 50)


def _shape_batches(steps: int) -> int:
    return min(shaping.BATCHES, 1 + steps // 5)


def work_of(model: Network, steps: int) -> dict[str, int]:
    """Kind of work -> units, after so many steps of training."""
    work: dict[str, int] = {}
    if isinstance(model, Transport):
        return work
    if calibratable(model):
        work[PRIOR] = calibration.ROUNDS * _batches(steps)
    if shaped(model) and steps >= WORTH_SHAPING:
        work |= shaping.work_of(model, _shape_batches(steps), shaping.ROUNDS)
    return work


def fit_prior(model: Network, draw: Draw, seed: int, steps: int, told: Told | None = None) -> None:
    """Do all of it, in place.  draw: wholes as in training.  seed: of wholes that no step trained on."""
    tell = told or (lambda name: None)
    if isinstance(model, Transport):
        return
    if calibratable(model):
        calibrate(model, draw, seed, _batches(steps), tick=lambda: tell(PRIOR))
    if shaped(model) and steps >= WORTH_SHAPING:
        shape_parts(model, draw, seed, _shape_batches(steps), shaping.ROUNDS, tell)


@dataclass(frozen=True)
class UnitSeconds:
    """What a unit of each kind of work takes.

    each: kind of work -> seconds.  singles: single parts in a batch, which the shapes are fitted to.
    reference: how many of them the measurement of a unit of SHAPES had; its time grows with their number.
    """

    each: Mapping[str, float]
    singles: float = 0.0
    reference: int = 1

    @classmethod
    @torch.no_grad()
    def measured(cls, model: Network, draw: Draw, seed: int) -> UnitSeconds:
        """Do a few units of each on a copy of the model.  draw, seed: as in :func:`fit_prior`."""
        own = copy.deepcopy(model).float().cpu()
        found: dict[str, float] = {}
        if isinstance(own, Transport):
            return cls(found)
        if calibratable(own):
            found[PRIOR] = _seconds(lambda: calibrate(own, draw, seed, 1, rounds=1))
        if not shaped(own):
            return cls(found)
        assert isinstance(own.prior, TablePrior)
        assert own.prior.mixture is not None
        own.train()
        pieces = []
        found[WHOLES] = _seconds(lambda: pieces.append(look(own, draw, seed, FOLD + len(pieces), 1)))
        seen, prior, mixture = pieces[-1], own.prior, own.prior.mixture
        z_prior = own.z_prior
        if isinstance(z_prior, ContextPrior):
            days, told = seen.days.repeat(z_prior.components, 1), seen.told.repeat(z_prior.components, 1)
            found[DAYS] = _seconds(lambda: z_prior.fit(days, told, steps=FEW)) / FEW
        found[MOMENTS] = _seconds(lambda: shaping.regress(prior, seen, FEW)) / FEW
        reference = 8 * prior.mean.shape[1]
        v, z = Noise(seed, reference, FOLD).normal("v", prior.mean.shape[1]), seen.z[:1].expand(reference, -1)
        found[SHAPES] = _seconds(lambda: mixture.fit(0, v, z, rounds=FEW)) / FEW
        return cls(found, float(len(seen.single)), reference)

    def of(self, model: Network, steps: int) -> dict[str, float]:
        """Kind of work -> seconds of one unit in the fits after so many steps."""
        kinds = model.config.parts.n_kinds
        more = max(1.0, self.singles * _shape_batches(steps) / kinds / self.reference)
        return {name: each * (more if name == SHAPES else 1.0) for name, each in self.each.items()}

    def total(self, model: Network, steps: int) -> float:
        """Seconds of all fits after so many steps."""
        each = self.of(model, steps)
        return sum(units * each.get(name, 0.0) for name, units in work_of(model, steps).items())


def _seconds(work: Callable[[], object]) -> float:
    """The shorter of two times: what the first alone takes (memory, caches) is not repeated."""
    times = []
    with torch.random.fork_rng(devices=[]):
        for _ in range(2):
            started = time.perf_counter()
            work()
            times.append(time.perf_counter() - started)
    return min(times)
