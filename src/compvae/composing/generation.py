"""Wholes from parts: z, W and x ~ p(x | z, W) p(z | W) prod_i p(w_i | l_i)  (paper, section 3.1).

Where the decoder sees only W = sum_i w_i, W is drawn from its closed-form prior: from counts, nothing here grows with
K; where parts have continuous attributes, only the moments of the prior do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from compvae.batch import Parts, collate, repeat
from compvae.context import context_size
from compvae.distributions import Normal
from compvae.network import CompVAE, Network
from compvae.noise import NormalSource
from compvae.parts import Multiset
from compvae.transport.network import Transport

__all__ = ["Generated", "Tile", "drawn", "generate", "sampled_whole"]

TILE = 64  # rows the networks see at once: a tile's activations stay in the cache, and one whole costs little more
TILE_NUMBERS = 2**18  # parts times pixels, or parts times coordinates of w, of a tile
FEWEST = 4  # parts that a tile is made for at least: what is done to each pixel after the sum costs as much as 4 parts


@dataclass(frozen=True)
class Generated:
    """x: the distribution of the whole given the latents drawn, over (B, *shape).

    code: W, (B, G, d), or {w_i}, (B, K, d).  z: (B, Z) or None.
    """

    x: Normal
    code: Tensor
    z: Tensor | None


def sampled_whole(
    model: CompVAE, parts: Parts, noise: NormalSource, context: Tensor | None = None, by_part: bool = False
) -> Generated:
    """One whole for each row.  context: (B, E), None where unknown.

    by_part: kinds that share a sum are drawn one by one, so that a source can give each part numbers of its own.
    """
    if model.config.context and context is None:
        like = next(model.decoder.parameters())
        context = like.new_zeros(len(parts), context_size(model.config.context))

    if model.decoder.aggregation.plain_sum and (model.config.latent.blocks or not by_part):
        code = model.prior.of_sum(parts).rsample(noise, "w")
    else:
        code = model.aggregate(model.prior.of_parts(parts.padded()).rsample(noise, "w"), parts)
    z = None
    if model.config.latent.z_place == "below":
        z = model.z_below(code, parts, context).rsample(noise, "z")
    return Generated(model.decoder(code, parts, z, context), code, z)


@torch.no_grad()
def generate(
    model: CompVAE, parts: Parts, noise: NormalSource, context: Tensor | None = None, by_part: bool = False
) -> Generated:
    """:func:`sampled_whole` without gradients."""
    return sampled_whole(model, parts, noise, context, by_part)


@torch.no_grad()
def drawn(
    model: Network, parts: Parts, source: NormalSource, context: Tensor | None, noise: bool, by_part: bool = False
) -> Tensor:
    """One whole for each row by either kind of network, float32 (B, *shape), arguments as in :func:`generate`."""
    if isinstance(model, Transport):
        return model.draw(parts, context, source)
    whole = generate(model, parts, source, context, by_part).x
    return (whole.rsample(source, "x") if noise else whole.mean).float()


class Tile:
    """Rows of one composition, as many as the networks see at once.

    A matrix product of 10 rows and one of 1,000 may differ in the last bits of the same row; on tiles of one height, a
    function of the composition alone, no row depends on how many were asked for.
    """

    def __init__(
        self, model: Network, composition: Multiset, context: Tensor | None = None, most: int = TILE,
        by_part: bool = False,
    ) -> None:  # fmt: skip
        """context: (1, E), None where the model takes none.  most: rows at once.  by_part: as in generate."""
        composition = composition.canonical()
        self.model, self.by_part, self.height = model, by_part, min(most, _height(model, composition))
        self.parts = repeat(collate([composition]), self.height)
        self.context = None if context is None else context.expand(self.height, -1)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of x."""
        return self.model.config.shape

    def draw(self, source: NormalSource, noise: bool = True) -> Tensor:
        """Wholes, float32 (height, *shape); noise=False leaves out the observation noise.  source: of height rows."""
        return drawn(self.model, self.parts, source, self.context, noise, self.by_part)


def _height(model: Network, composition: Multiset) -> int:
    """Rows of a tile, so that memory stays bounded whatever K is."""
    if isinstance(model, Transport):
        return max(1, min(TILE, TILE_NUMBERS // math.prod(model.config.shape)))
    if model.decoder.aggregation.plain_sum and model.config.parts.countable:
        return TILE
    each = model.decoder.n_pixels or model.config.latent.w
    return max(1, min(TILE, TILE_NUMBERS // (max(composition.size, FEWEST) * each)))
