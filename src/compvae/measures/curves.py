"""What is hidden in a curve: x(t) = K tanh( C/K sum_f A_f cos(2 pi f t + k_f) ), solved for the phasors of each f.

Of several parts of one frequency only the sum of phasors (A cos k, A sin k) shows in x; where a frequency stands once,
its amplitude and phase are those of the part.  Least squares in x-space: inverting the tanh would blow up whatever
noise sits on the saturated points.  The inverse, weighted by how far from saturation a point is, is where it starts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from compvae.errors import DataError
from compvae.extras import need
from compvae.measures.fitting import best_of, nearest
from compvae.measures.ks import ks_distance
from compvae.measures.measured import Measured, samples
from compvae.problems.sines import AMPLITUDE, Sines

__all__ = ["Phasors", "ks_amplitude", "ks_phase", "recover_phasors"]

SATURATED = 0.98  # |x/K| beyond which the inverse of tanh is not trusted
MOST = 4.0  # times the number of parts: no phasor of a true part is larger (10 standard deviations)


@dataclass(frozen=True)
class Phasors:
    """Phasors of the distinct frequencies of a composition, ascending.

    counts: parts of each frequency, (F,).  value: (A cos k, A sin k), (n, F, 2).
    reachable: the nearest true curve, (n, T).
    """

    counts: np.ndarray
    value: np.ndarray
    reachable: np.ndarray

    @property
    def unique(self) -> np.ndarray:
        """Frequencies that stand once, (F,) bool: their amplitude and phase are those of one part."""
        return np.asarray(self.counts == 1)

    @property
    def amplitude(self) -> np.ndarray:
        """|phasor|, (n, F)."""
        return np.asarray(np.hypot(self.value[..., 0], self.value[..., 1]))

    @property
    def phase(self) -> np.ndarray:
        """Angle in (-pi, pi], (n, F)."""
        return np.asarray(np.arctan2(self.value[..., 1], self.value[..., 0]))

    @property
    def features(self) -> np.ndarray:
        """All phasors side by side, (n, 2 F): what C2ST may look at."""
        return self.value.reshape(len(self.value), -1)


def recover_phasors(problem: Sines, parts: object, x: np.ndarray) -> Phasors:
    """Solve curves of one composition for their phasors.  x: (n, T)."""
    if np.shape(x)[1:] != problem.shape:
        raise DataError(f"x must be curves (n, {problem.shape[0]}), got shape {np.shape(x)}")
    curves = torch.from_numpy(samples(x, "x", 1))
    composition = problem.schema.parse(parts)
    counts = np.array(composition.counts)
    kinds = np.flatnonzero(counts)
    waves = problem.waves[np.concatenate([kinds, kinds + len(counts)])]  # (2 F, T)
    size, gain = composition.size, problem.settings.C / composition.size

    def reach(phasor: Tensor) -> tuple[Tensor, Tensor]:
        level = torch.tanh(gain * phasor @ waves)
        return level * size, (problem.settings.C * (1 - level**2))[..., None] * waves.T

    mean = torch.cat([torch.from_numpy(counts[kinds]).double(), torch.zeros(len(kinds), dtype=torch.float64)])
    most = MOST * float(counts.max())
    starts = (_inverse(curves / size, waves, gain, mean), mean.expand(len(curves), -1))
    fit = best_of([nearest(reach, curves, start.clamp(-most, most), -most, most) for start in starts])
    value = fit.parameters.view(len(curves), 2, len(kinds)).mT
    return Phasors(counts[kinds], value.numpy(), fit.whole.numpy())


def ks_amplitude(phasors: Phasors) -> Measured:
    """KS distance of the amplitudes of unique frequencies, all together, to |N(1, .3)|, what the truth has."""
    centre, spread = AMPLITUDE
    normal = need("scipy.stats", "eval").norm(centre, spread)
    return ks_distance(_of_unique(phasors, phasors.amplitude), lambda a: normal.cdf(a) - normal.cdf(-a))


def ks_phase(phasors: Phasors, phase_std: float) -> Measured:
    """KS distance of the phases of unique frequencies to N(0, phase_std) wrapped into (-pi, pi].

    A negative amplitude, seen in one part of 2,000, shows as a phase that is half a turn off.
    """
    if phase_std <= 0:
        raise DataError("phases do not vary where phase_std is 0: there is no distribution to compare them with")
    stats = need("scipy.stats", "eval")
    flipped = float(stats.norm.cdf(0, *AMPLITUDE))
    turns = 2 * math.pi * np.arange(-2 - math.ceil(phase_std), 3 + math.ceil(phase_std))

    def wrapped(phase: np.ndarray, shift: float) -> np.ndarray:
        ends = stats.norm.cdf(phase[:, None] + turns, shift, phase_std)
        starts = stats.norm.cdf(turns - math.pi, shift, phase_std)
        return np.asarray((ends - starts).sum(1))

    def cdf(phase: np.ndarray) -> np.ndarray:
        return (1 - flipped) * wrapped(phase, 0.0) + flipped * wrapped(phase, math.pi)

    return ks_distance(_of_unique(phasors, phasors.phase), cdf)


def _of_unique(phasors: Phasors, values: np.ndarray) -> np.ndarray:
    """Values of the frequencies that stand once, (n U,).  values: (n, F)."""
    if not phasors.unique.any():
        raise DataError("every frequency stands several times: only sums of phasors can be told, no amplitude or phase")
    return values[:, phasors.unique].ravel()


def _inverse(level: Tensor, waves: Tensor, gain: float, mean: Tensor) -> Tensor:
    """Phasors by weighted linear least squares on atanh(x/K), drawn to the mean where points are saturated.

    level: x/K, (n, T).  waves: (2 F, T).  mean: (2 F,) -> (n, 2 F).
    """
    inside = level.clamp(-SATURATED, SATURATED)
    weight = (1 - inside**2) ** 2
    target = torch.atanh(inside) / gain - mean @ waves
    system = (waves * weight[:, None]) @ waves.T + 1e-3 * torch.eye(len(waves), dtype=waves.dtype)
    shift: Tensor = torch.linalg.solve(system, (weight * target) @ waves.T)
    return mean + shift
