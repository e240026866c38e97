"""What is hidden in an image of `colours`: the sharpness s_k of each site, by least squares with the sites known.

    x_c = y_c^(1/2.4),  y_c = sum_k p_k colour_kc,  p = softmax_k(-s_k d_k)
    dx_c/ds_k = -x_c/2.4 d_k (r_kc - p_k),  r_kc = p_k colour_kc / y_c

The power has an infinite slope at y = 0, but y falls to 0 like an exponential of s: ln y is smooth in s, |r - p| <= 1,
so that x-space needs no special care when the chain rule goes through ln y.  (Colours are 0 or 1 in each channel.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from compvae.batch import pad
from compvae.errors import DataError
from compvae.measures.fitting import Reach, best_of, nearest
from compvae.measures.measured import Measured, mean_of, samples
from compvae.noise import Noise
from compvae.problems.colours import GAMMA, SHARPNESS, Colours

__all__ = ["Sharpness", "glitch_fraction", "recover_sharpness"]

STARTS = 6  # the middle of the range, and random ones: where sites stand close together there are several minima
STRIDE = 2  # of the pixels that are looked at first, along either axis
ROUGH = 12  # rounds enough to see which start leads to the lowest minimum
ANY = (1e-2, 1e3)  # any positive sharpness, in practice
PIXEL_NOISE = 0.02  # a site is identified where noise of this size on x leaves it better known than the prior does
GLITCH = 0.3


@dataclass(frozen=True)
class Sharpness:
    """Sharpness of each site, in the caller's order.

    value: (n, K).  identified: (n, K) bool, False where x hardly depends on it, as for a site among its own colour; it
    is judged at the fitted value, so that it is most reliable for true images, where the fit is exact.
    reachable: the nearest image within the bounds, (n, 3, H, W).
    """

    value: np.ndarray
    identified: np.ndarray
    reachable: np.ndarray

    @property
    def usual(self) -> np.ndarray:
        """Sites identified in more than half of the images, (K,) bool."""
        return np.asarray(self.identified.mean(0) > 0.5)


def recover_sharpness(
    problem: Colours, parts: object, x: np.ndarray, bounds: tuple[float, float] = ANY, near: np.ndarray | None = None
) -> Sharpness:
    """Solve images of one composition for the sharpness of its sites.  x: (n, 3, H, W).

    bounds: any positive sharpness by default; ``SHARPNESS`` gives the nearest image the generator can make.
    near: a fit under wider bounds, (n, K), from which to begin; it and the middle of the range stand for all starts.
    """
    if np.shape(x)[1:] != problem.shape:
        raise DataError(f"x must be images (n, {', '.join(map(str, problem.shape))}), got shape {np.shape(x)}")
    if not 0 < bounds[0] < bounds[1]:
        raise DataError(f"bounds of the sharpness must be positive and ascending, got {bounds}")
    images = torch.from_numpy(samples(x, "x", 1)).view(len(x), 3, -1)
    some = torch.arange(images.shape[2]).view(problem.shape[1:])[::STRIDE, ::STRIDE].flatten()
    coarse, fine = _generator(problem, parts, some), _generator(problem, parts)
    few = images[..., some].flatten(1)
    starts = list(_starts(problem.schema.parse(parts).size).expand(len(images), -1, -1).unbind(1))
    starts = starts if near is None else [starts[0], torch.from_numpy(near)]
    rough = best_of([nearest(coarse, few, start.clamp(*bounds), *bounds, rounds=ROUGH) for start in starts])
    fit = nearest(fine, images.flatten(1), rough.parameters, *bounds)
    low, high = SHARPNESS
    known = _deviation(fit.curvature) < (high - low) / 12**0.5
    return Sharpness(fit.parameters.numpy(), known.numpy(), fit.whole.view(np.shape(x)).numpy())


def glitch_fraction(x: np.ndarray, reachable: np.ndarray, off: float = GLITCH) -> Measured:
    """Share of pixels with a channel that is off by more than 0.3 from the nearest reachable image.

    x, reachable: (n, 3, H, W).
    """
    if np.ndim(x) != 4 or np.shape(x) != np.shape(reachable):
        raise DataError(f"x and reachable must be images (n, 3, H, W), got {np.shape(x)} and {np.shape(reachable)}")
    samples(x, "x", 1)
    return mean_of((np.abs(np.asarray(x, np.float64) - reachable) > off).any(1).mean((1, 2)))


def _starts(sites: int) -> Tensor:
    """Where the descents begin, (STARTS, K)."""
    low, high = SHARPNESS
    drawn = Noise(0, STARTS).uniform("start", sites, dtype=torch.float64)
    drawn[0] = 0.5
    return low + (high - low) * drawn


def _generator(problem: Colours, parts: object, pixels: Tensor | None = None) -> Reach:
    """The true generator as a function of sharpness, with its Jacobian, at all pixels or at these, (P,) int64."""
    padded = pad([problem.schema.parse(parts)], torch.float64)
    distance = problem.distances(padded, torch.float64)[0].flatten(1)  # (K, P)
    distance = distance if pixels is None else distance[:, pixels]
    colour = problem.palette.double()[padded.kind[0]]  # (K, 3)

    def reach(sharpness: Tensor) -> tuple[Tensor, Tensor]:
        share = torch.softmax(-sharpness[..., None] * distance, 1)  # p, (n, K, P)
        light = torch.einsum("nkp,kc->ncp", share, colour)  # y, (n, 3, P)
        x = light.pow(1 / GAMMA)
        ratio = share[:, None] * colour.T[..., None] / light.clamp(min=1e-300)[:, :, None]  # r, (n, 3, K, P)
        jacobian = (share[:, None] - ratio) * distance * (x / GAMMA)[:, :, None]
        return x.flatten(1), jacobian.transpose(2, 3).flatten(1, 2)

    return reach


def _deviation(curvature: Tensor) -> Tensor:
    """Standard deviation of each sharpness under pixel noise, by the inverse of J'J, (n, K).  curvature: (n, K, K)."""
    sites = curvature.shape[1]
    regular = curvature + 1e-9 * torch.eye(sites, dtype=curvature.dtype)  # a site that changes nothing: a large one
    inverse: Tensor = torch.linalg.inv(regular)
    return PIXEL_NOISE * inverse.diagonal(dim1=1, dim2=2).clamp(min=0).sqrt()
