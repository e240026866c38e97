"""The Gaussians of the model: diagonal ones, correlated ones over the parts of a whole, dense ones."""

from __future__ import annotations

from compvae.distributions.normal import LOG_2PI, Members, Normal, raised, soft_floor
from compvae.distributions.of_parts import Bridge, PaperCorrelated, PartsGaussian, SumControlled, correlations

__all__ = [
    "LOG_2PI", "Bridge", "Members", "Normal", "PaperCorrelated", "PartsGaussian", "SumControlled", "correlations",
    "raised", "soft_floor",
]  # fmt: skip
