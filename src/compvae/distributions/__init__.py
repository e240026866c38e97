"""The Gaussians of the model: diagonal ones, correlated ones over the parts of a whole, dense ones."""

from __future__ import annotations

from compvae.distributions.normal import (
    LOG_2PI,
    MOST,
    WIDEST,
    Members,
    Normal,
    bounded,
    raised,
    soft_floor,
    variance_of,
)
from compvae.distributions.of_parts import Bridge, PaperCorrelated, PartsGaussian, SumControlled, correlations

__all__ = [
    "LOG_2PI", "MOST", "WIDEST", "Bridge", "Members", "Normal", "PaperCorrelated", "PartsGaussian", "SumControlled",
    "bounded", "correlations", "raised", "soft_floor", "variance_of",
]  # fmt: skip
