"""What the measures mean, in words, and which of their rows stand in which table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compvae.evaluation.rows import MODEL, Evaluation, Row

__all__ = ["MEANINGS", "Cell", "Table", "Versus", "shown_below", "versus"]

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
    "energy score": "distance of draws to the observed, less half their own spread, in the unit of x; lower is better",
    "coverage of 90%": "share of observed values inside the 90% interval of the draws; 0.9 is right",
    "PIT of the peak": "Kolmogorov distance from uniform of the ranks of observed peaks among drawn ones; 0 is right",
    "P95 peak, ratio": "95% quantile of the drawn peaks over that of the observed ones; 1 is right",
    "variance, ratio": "variance of the draws over that of the observed wholes; 1 is right",
    "P95 peak a part": "95% quantile of the peak, divided by K, in the unit of x",
    "departure from the sum": "RMS of whole minus the mean of its parts, of the RMS of the whole",
}


@dataclass(frozen=True)
class Cell:
    """What one of them got at one K, and our verdict against it; "" for ourselves."""

    row: Row
    verdict: str


@dataclass(frozen=True)
class Versus:
    """One measure of one of those that were judged.  cells: by K, None where it was not."""

    of: str
    name: str
    cells: dict[int, Cell | None]


@dataclass(frozen=True)
class Table:
    """One measure.  sizes: K, None for the training range.  floors: by K.  lines: rows by K, of each that was judged.

    n: samples of each composition that it looked at.
    """

    name: str
    sizes: list[int | None]
    floors: list[float | None]
    lines: dict[str, list[Row | None]]
    n: str

    @classmethod
    def of(cls, name: str, rows: Sequence[Row]) -> Table:
        """rows: of that measure."""
        sizes = sorted({row.K for row in rows}, key=lambda size: size or 0)
        floors = {row.K: row.floor for row in reversed(rows)}  # the first that is judged has the last word
        known = {(row.of, row.K): row for row in rows}
        lines = {who: [known.get((who, size)) for size in sizes] for who in dict.fromkeys(row.of for row in rows)}
        counts = sorted({row.n for row in rows if row.n is not None})
        return cls(name, sizes, [floors[size] for size in sizes], lines, ", ".join(map(str, counts)))


def versus(found: Evaluation) -> list[Versus]:
    """A line for the model and one for each baseline, by each measure in which they are compared."""
    verdicts = {(one.name, one.against, one.K): one.verdict for one in found.comparisons}
    rows = {(row.name, row.of, row.K): row for row in found.measures}
    sizes = sorted({one.K for one in found.comparisons})
    who = [MODEL, *dict.fromkeys(one.against for one in found.comparisons)]

    def cell(name: str, of: str, size: int) -> Cell | None:
        row = rows.get((name, of, size))
        return None if row is None else Cell(row, verdicts.get((name, of, size), ""))

    names = dict.fromkeys(one.name for one in found.comparisons)
    return [Versus(of, name, {size: cell(name, of, size) for size in sizes}) for name in names for of in who]


def shown_below(found: Evaluation) -> list[Table]:
    """Measures in the order in which they first come; of baselines those that are not compared above."""
    compared = {(one.name, one.against) for one in found.comparisons}
    groups: dict[str, list[Row]] = {}
    for row in sorted(found.measures, key=lambda row: row.of != MODEL):
        if (row.name, row.of) not in compared:
            groups.setdefault(row.name, []).append(row)
    return [Table.of(name, rows) for name, rows in groups.items()]
