"""The base for parts with continuous attributes: W | composition is Gaussian, with one term for each part.

    E W = g(S),  S = sum_i m_i + m_0 + M_0 a
    W - E W = g'(S) ( sum_i w_i + w_0 + (sum_i B_i) z ),   w_i ~ N(0, L_i L_i' + diag d_i),   z ~ N(0, I)

m_i, L_i, d_i, B_i: outputs of one network of the part (part_network.py), so that K is free.  g: monotone, learned, one
for all values: parts add up, and the whole may saturate.  Fitted by likelihood, then held (network.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from compvae.batch import PaddedParts
from compvae.noise import NormalSource
from compvae.transport.config import TransportConfig
from compvae.transport.gaussian import LinearGaussian
from compvae.transport.part_network import PartNetwork, space_of

__all__ = ["EVERYWHERE", "DrawnNoise", "PartTerms", "PlacedBase"]

BENDS = 4  # of the learned link
FASTER = 10.0  # a few numbers for all values learn as fast as many weights do together
STRAIGHT = 0.1  # nats a value, that a slope of 1 which never ends costs: what levels off in the data levels off beyond
LEAST = 0.01  # standard deviation of a value, in units of scale
EVERYWHERE = slice(None)  # at all places
QUIET = 4.0  # softplus(-QUIET): standard deviation of a part's own noise before training


class LearnedLink(nn.Module):
    """g(S) = a_0 S + sum_k a_k (tanh(b_k S + c_k) - tanh c_k), a, b >= 0: increasing, 0 at 0."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(0.5) / FASTER)
        self.height = nn.Parameter(torch.full((BENDS,), -1.0) / FASTER)
        self.rate = nn.Parameter(torch.linspace(-1.0, 1.0, BENDS) / FASTER)
        self.centre = nn.Parameter(torch.linspace(-1.0, 0.0, BENDS) / FASTER)

    def cost(self) -> Tensor:
        """STRAIGHT a_0, nats a value, ().

        A limit that data approaches and a slope that goes on fit it almost alike and differ with more parts.
        """
        return STRAIGHT * softplus(FASTER * self.slope)

    def forward(self, total: Tensor) -> tuple[Tensor, Tensor]:
        """g and its slope, as total is."""
        own = [FASTER * each.to(total.dtype) for each in (self.slope, self.height, self.rate, self.centre)]
        slope, heights, rates = (softplus(each) for each in own[:3])
        value, steep = slope * total, slope
        for height, rate, centre in zip(heights, rates, own[3], strict=True):
            bent = torch.tanh(rate * total + centre)
            value = value + height * (bent - torch.tanh(centre))
            steep = steep + height * rate * (1 - bent.square())
        return value, steep


@dataclass(frozen=True)
class PartTerms:
    """What the parts of each whole do, one by one; zeros where there is no part.

    mean: S without the whole's share, (B, T).  loadings: (B, K, T, R).  noises: (B, K, T).  shared: (B, T, Z).
    hidden: features of the part network, summed over parts, (B, H, S).
    """

    mean: Tensor
    loadings: Tensor
    noises: Tensor
    shared: Tensor
    hidden: Tensor


@dataclass(frozen=True)
class DrawnNoise:
    """White noise of a draw of W.  factors: (B, F).  rest: (B, T).  z: (B, Z)."""

    factors: Tensor
    rest: Tensor
    z: Tensor

    def rows(self, rows: slice) -> DrawnNoise:
        """Of some of the wholes."""
        return DrawnNoise(self.factors[rows], self.rest[rows], self.z[rows])


class PlacedBase(nn.Module):
    """W given the composition, in units of ``scale``, (T,)."""

    scale: Tensor

    def __init__(self, config: TransportConfig, told: int) -> None:
        """told: covariates of a whole."""
        super().__init__()
        assert config.places is not None
        self.channels, space = space_of(config.shape)
        self.rank, self.factors, self.floor = config.rank, config.factors, config.floor
        self.network = PartNetwork(config.places, space, config.parts.n_kinds, told)
        self.heads = nn.Linear(config.places.hidden, self.channels * (2 + self.rank + self.factors))
        self.link = LearnedLink()
        values = self.channels * len(self.network.grid)
        self.register_buffer("scale", torch.ones(values))
        self.whole_mean = nn.Parameter(torch.zeros(1 + told, values))
        self.whole_loadings = nn.Parameter(0.01 * torch.randn(values, self.rank))
        self.whole_noise = nn.Parameter(torch.full((values,), -QUIET))

    def part_terms(self, parts: PaddedParts, context: Tensor, at: Tensor | slice = EVERYWHERE) -> PartTerms:
        """context: (B, E), in the type that is computed in.  at: places that are looked at, (S',) int64."""
        rows, places = parts.mask.nonzero(as_tuple=True)
        features = parts.features[rows, places].to(context.dtype)
        hidden = self.network(parts.kind[rows, places], features, context[rows], at)
        said = self.heads(hidden).unflatten(-1, (self.channels, -1)).transpose(1, 2).flatten(1, 2)  # (M, T, 2 + R + Z)
        mean, own, loadings, shared = said.split([1, 1, self.rank, self.factors], -1)
        noise = softplus(own[..., 0] - QUIET).square() + self.floor**2 * loadings.square().sum(-1)

        def added(value: Tensor) -> Tensor:
            return value.new_zeros(len(parts), *value.shape[1:]).index_add(0, rows, value)

        def each(value: Tensor) -> Tensor:
            padded = value.new_zeros(*parts.mask.shape, *value.shape[1:])
            return padded.index_put((rows, places), value)

        return PartTerms(added(mean[..., 0]), each(loadings), each(noise), added(shared), added(hidden).mT)

    def values_at(self, value: Tensor, at: Tensor | slice) -> Tensor:
        """The values at some places, (.., T').  value: (.., T).  at: (S',) int64."""
        found: Tensor = value.unflatten(-1, (self.channels, -1))[..., at]
        return found.flatten(-2)

    def given(
        self, terms: PartTerms, context: Tensor, at: Tensor | slice = EVERYWHERE
    ) -> tuple[Tensor, LinearGaussian]:
        """E W, (B, T), and W - E W.  context: (B, E).  at: the places of the terms."""
        told = torch.cat([context.new_ones(len(context), 1), context], 1)
        mean, slope = self.link(terms.mean + told @ self.values_at(self.whole_mean, at).to(context.dtype))
        loadings = self.values_at(self.whole_loadings.T, at).T.to(context.dtype)
        noise = softplus(self.values_at(self.whole_noise, at).to(context.dtype)).square()
        noise = noise + self.floor**2 * loadings.square().sum(1) + (LEAST / slope).square()
        all_loadings = torch.cat([terms.loadings, loadings.expand(len(mean), 1, -1, -1)], 1)
        noises = torch.cat([terms.noises, noise[:, None]], 1)
        return mean, LinearGaussian(all_loadings.transpose(1, 2).flatten(2), noises, terms.shared, slope)

    def draw_terms(self, loadings: Tensor, noises: Tensor, source: NormalSource, name: str) -> Tensor:
        """Terms of the prior one by one, before the link's slope, (B, K, T).

        loadings: (B, K, T, R).  noises: (B, K, T).
        """
        _, number, values = noises.shape
        own = source.normal(name, number, max(1, self.rank), dtype=noises.dtype)[..., : self.rank]
        rest = source.normal(f"{name}/rest", number, values, dtype=noises.dtype)
        return (loadings @ own[..., None])[..., 0] + noises.sqrt() * rest

    def noise_of(self, gaussian: LinearGaussian, source: NormalSource, z: Tensor | None) -> DrawnNoise:
        """The numbers of a draw of W: factors belong to parts.  z: (B, Z), drawn where it is not given."""
        _, number, values = gaussian.noises.shape
        dtype, rank = gaussian.noises.dtype, max(1, self.rank)
        own = [source.normal("w", number - 1, rank, dtype=dtype), source.normal("w/whole", 1, rank, dtype=dtype)]
        z = source.normal("z", max(1, self.factors), dtype=dtype)[:, : self.factors] if z is None else z.to(dtype)
        return DrawnNoise(
            torch.cat(own, 1)[..., : self.rank].flatten(1), source.normal("w/rest", values, dtype=dtype), z
        )

    def deviation(self, gaussian: LinearGaussian, noise: DrawnNoise) -> Tensor:
        """W - E W, (B, T)."""
        own = (gaussian.loadings @ noise.factors[..., None])[..., 0] + gaussian.noise.sqrt() * noise.rest
        return own * gaussian.factor + gaussian.of_z(noise.z)
