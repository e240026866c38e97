"""q(z, {w_i} | x, {l_i}): graph (the paper's), collapsed and newton (ours)."""

from compvae.config import ModelConfig
from compvae.posterior.base import Posterior
from compvae.posterior.collapsed import CollapsedPosterior
from compvae.posterior.graph import GraphPosterior
from compvae.posterior.newton import NewtonPosterior

__all__ = ["Posterior", "build_posterior"]

POSTERIORS: dict[str, type[Posterior]] = {
    "graph": GraphPosterior,
    "collapsed": CollapsedPosterior,
    "newton": NewtonPosterior,
}


def build_posterior(config: ModelConfig) -> Posterior:
    """The posterior that the configuration names."""
    return POSTERIORS[config.posterior.kind](config)
