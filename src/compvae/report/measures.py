"""What the measures mean, in words, and the table of the model against its baselines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compvae.evaluation.rows import Comparison

__all__ = ["MEANINGS", "Versus", "versus"]

MEANINGS = {
    "relED": "relative energy distance of samples to exact ones; 0 is exact",
    "RMSE of mean": "where exact samples hardly vary: RMSE between the two means",
    "sliced Wasserstein": "distance of samples to exact ones along random directions, in the unit of x",
    "moment mean": "error of the mean, in units of the spread",
    "moment std": "error of the standard deviation, in units of the spread",
    "moment skew": "error of the skewness",
    "exceedance 0.9": "error of the share of wholes beyond the exact 90% quantile of their size",
    "exceedance 0.99": "the same beyond the 99% quantile",
    "off-manifold": "distance of samples to the nearest whole the exact generator can make, of their RMS",
    "period": "RMS of x(t + period) - x(t), of the RMS of x; exact curves have 0",
    "glitches": "share of pixels off by more than 0.3 from the nearest image the exact generator can make",
    "C2ST": "how often a classifier tells samples from exact ones by what is hidden in them; 0.5 is by chance",
    "KS amplitude": "Kolmogorov distance of recovered amplitudes to their true distribution",
    "KS phase": "Kolmogorov distance of recovered phases to their true distribution",
    "KS sharpness": "Kolmogorov distance of recovered sharpness to its true distribution",
    "edit remove": "error of a removal over that of forgetting the observed whole; 0 is exact, 1 is a fresh draw",
    "edit add relED": "relED of a whole with a part added to exact counterfactuals",
    "edit replace relED": "relED of a whole with a part replaced to exact counterfactuals",
    "recovered amplitude": "RMSE of the amplitude of a part, in units of its spread; 1 is a guess",
    "recovered phase": "RMSE of the phase of a part, in units of its spread",
    "recovered sharpness": "RMSE of the sharpness of a site, in units of its spread",
    "bits in w": "information in the parts' latents",
    "bits in z": "information in the shared latent",
    "order": "largest difference between samples of one composition given in two orders",
    "departure from the sum": "RMS of whole minus the mean of its parts, of the RMS of the whole",
}


@dataclass(frozen=True)
class Versus:
    """The model against one baseline by one measure.  cells: K -> verdict and difference, None where not compared."""

    against: str
    name: str
    cells: dict[int, Comparison | None]


def versus(comparisons: Sequence[Comparison]) -> list[Versus]:
    """One line for each measure and baseline, all with the same K."""
    sizes = sorted({one.K for one in comparisons})
    found = {(one.name, one.against, one.K): one for one in comparisons}
    lines = dict.fromkeys((one.name, one.against) for one in comparisons)
    ordered = sorted(lines, key=lambda line: list(dict.fromkeys(name for name, _ in lines)).index(line[0]))
    return [Versus(who, name, {K: found.get((name, who, K)) for K in sizes}) for name, who in ordered]
