"""CompVAE: p(x, z, {w_i} | {l_i}) = p(x | z, W) p(z | W) prod_i p(w_i | l_i), W = sum_i w_i  (paper, eq. 1), and its q.

Assembly only: the pieces live in prior, posterior and decoder; the configuration says which.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from compvae.batch import Parts
from compvae.config import ModelConfig
from compvae.context import context_size
from compvae.decoder import build_decoder
from compvae.distributions import Normal
from compvae.errors import ConfigError
from compvae.posterior import build_posterior
from compvae.prior import ZPrior, build_prior, members_of
from compvae.scale import beside, size_scale
from compvae.transport.config import AnyModelConfig, TransportConfig
from compvae.transport.network import Transport

__all__ = ["CompVAE", "Network", "build_network", "seeded_network", "structured", "unfilled_network"]


class _Unfilled(TorchFunctionMode):
    """No tensor is filled with random numbers in place; every other call goes its way."""

    FILLING = (Tensor.normal_, Tensor.uniform_, nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """func, or the tensor it would fill as it is."""
        named = kwargs or {}
        if func in self.FILLING:
            return args[0] if args else named["tensor"]  # nn.init gives it by name
        return func(*args, **named)


class CompVAE(nn.Module):
    """The networks of one model."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.prior = build_prior(config)
        self.posterior = build_posterior(config)
        self.decoder = build_decoder(config)
        self.z_prior = self._z_prior(config)

    @classmethod
    def seeded(cls, config: ModelConfig, seed: int) -> CompVAE:
        """A model whose initial weights depend on the seed alone."""
        network = seeded_network(config, seed)
        assert isinstance(network, cls)
        return network

    @staticmethod
    def _z_prior(config: ModelConfig) -> ZPrior | None:
        latent, told = config.latent, context_size(config.context)
        if latent.z_place == "none":
            return None
        return ZPrior(config.n_blocks * latent.w + told, latent.z, config.prior.z_network, config.prior.floor)

    def aggregate(self, w: Tensor, parts: Parts) -> Tensor:
        """What the decoder takes: W = sum w_i, (B, G, d), or the parts themselves.  w: (B, K, d)."""
        if not self.decoder.aggregation.plain_sum:
            return w
        return self.decoder.aggregation(w, members_of(parts.padded(), self.config))

    def z_below(self, code: Tensor, parts: Parts, context: Tensor | None) -> Normal:
        """p(z | W, context), over (B, Z).  code: W, (B, G, d).  Where x is measured in units of K, so is W."""
        assert self.z_prior is not None
        given: Normal = self.z_prior(self.z_view(code, parts, context))
        return given

    def z_view(self, code: Tensor, parts: Parts, context: Tensor | None) -> Tensor:
        """What networks of z see of W: W itself (paper), or W/K where x is measured in units of K.  -> (B, N)."""
        return beside((code / size_scale(self.config, parts, code)).flatten(1), context)


Network = CompVAE | Transport


def structured(network: Network, what: str = "this") -> CompVAE:
    """The network, which must have a decoder and latents of parts.  what: needs them, for the sentence that says so."""
    if not isinstance(network, CompVAE):
        raise ConfigError(f"{what} needs a structured model (preset small, sums or paper), got an invertible one")
    return network


def build_network(config: AnyModelConfig) -> Network:
    """The network that a configuration describes."""
    return Transport(config) if isinstance(config, TransportConfig) else CompVAE(config)


def seeded_network(config: AnyModelConfig, seed: int) -> Network:
    """A network whose initial weights depend on the seed alone; torch's global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build_network(config)


def unfilled_network(config: AnyModelConfig) -> Network:
    """Names and shapes, for weights that are assigned: memory that nobody wrote to is not taken.

    Not on the meta device: the little arithmetic of some layers there makes torch import its compiler, 2 s.
    """
    with _Unfilled():
        return build_network(config)
