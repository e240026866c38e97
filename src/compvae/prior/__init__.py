"""The priors: p(w_i | l_i) by name, and p(z | W) below the parts."""

from __future__ import annotations

from compvae.config import ModelConfig
from compvae.prior.base import PartPrior, PriorStatistics, members_of
from compvae.prior.given_sum import ZPrior
from compvae.prior.network import NetworkPrior
from compvae.prior.table import TablePrior

__all__ = ["NetworkPrior", "PartPrior", "PriorStatistics", "TablePrior", "ZPrior", "build_prior", "members_of"]


def build_prior(config: ModelConfig) -> PartPrior:
    """The prior of the parts that the configuration names."""
    return TablePrior(config) if config.prior.kind == "table" else NetworkPrior(config)
