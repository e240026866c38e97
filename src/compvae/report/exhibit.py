"""What stands in a report beside each figure, and what figures of curves and of images are both made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from compvae.evaluation.observed import Described, Observation
from compvae.model import Model

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Exhibit", "draws_of_both", "last_removed"]


@dataclass(frozen=True)
class Exhibit:
    """A figure.

    name: a word that tells it from others.  alt: what is to be seen, for those who do not see it.
    """

    name: str
    title: str
    alt: str
    caption: str
    figure: Figure


def draws_of_both(model: Model, seen: Observation, parts: Described, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws of some of the parts by the exact generator and by the model, without its noise, (n, *shape) each."""
    return seen.problem.truth(parts, n, seen.seed), model.sample(parts, n, seen.seed, noise=False)


def last_removed(model: Model, seen: Observation) -> tuple[np.ndarray, np.ndarray]:
    """The first whole without its last part, by the model and exactly, (*shape) each."""
    edited = model.infer(seen.x[0], seen.parts).remove(seen.parts[-1:]).decode()
    return edited, seen.only(range(len(seen.parts) - 1))[0]
