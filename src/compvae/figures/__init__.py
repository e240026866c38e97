"""Every figure of the paper and of the report: functions from arrays to a matplotlib Figure, without pyplot."""

from compvae.figures import curves, images, loads, unseen
from compvae.figures.numbers import live_coordinates, rel_ed_by_size, training_curves
from compvae.figures.style import Frame, inline_svg

__all__ = [
    "Frame",
    "curves",
    "images",
    "inline_svg",
    "live_coordinates",
    "loads",
    "rel_ed_by_size",
    "training_curves",
    "unseen",
]
