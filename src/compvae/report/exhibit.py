"""What stands in a report beside each figure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Exhibit"]


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
