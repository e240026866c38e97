"""Transport: x = T^-1( E W + s map( (W - E W) / s; n, context ) ), W ~ base, s its spread: invertible from end to end.

Trained by flow matching (Lipman et al. 2023) from draws of that base, u_0, to data, u_1, both in units of the spread:

    E | v((1 - t) u_0 + t u_1, t | n / K, 1 / sqrt K, context) - (u_1 - u_0) |^2

A sum of squares: no bound, no encoder, nothing to balance.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from compvae.batch import Batch, Parts
from compvae.context import context_size, flag_columns
from compvae.noise import Noise, NormalSource
from compvae.transport.base import Base
from compvae.transport.config import TransportConfig
from compvae.transport.field import VelocityField, path_scale
from compvae.transport.flow import EXACT_VALUES, apply, invert, log_determinant
from compvae.transport.link import Link, within

__all__ = ["DEQUANTISED", "Given", "Transport", "base_of", "row_weights"]

DEQUANTISED = 0.15  # standard deviation of the noise on whole numbers: what is drawn within 1/2 is put back
SLACK = 1.25  # how far draws may go, over the farthest of the data, in units of the spread


class Given:
    """What is known of each whole beside x: n, K, context.

    counts: (B, C).  sizes: (B, 1).  context: (B, E), zeros where unknown.
    """

    def __init__(self, parts: Parts, context: Tensor | None, covariates: int, dtype: torch.dtype) -> None:
        self.counts = parts.counts.to(dtype)
        self.sizes = self.counts.sum(1, keepdim=True)
        if context is None:
            context = self.counts.new_zeros(len(self.counts), covariates)
        self.context = context.to(dtype)

    def condition(self) -> Tensor:
        """What the field is told, (B, 2 C + 1 + E): bounded however many parts there are."""
        share = self.counts / self.sizes
        return torch.cat([share, share.sqrt() / 2, self.sizes.rsqrt(), self.context], 1)


class Transport(nn.Module):
    """An invertible model.  reach: how far from its mean a whole may be, in units of the base's spread, ()."""

    reach: Tensor

    def __init__(self, config: TransportConfig) -> None:
        super().__init__()
        self.config = config
        values, kinds, told = math.prod(config.shape), config.parts.n_kinds, context_size(config.context)
        self.link = Link(config.link, values, config.extensive)
        self.base = base_of(config)
        self.field = VelocityField(values, 2 * kinds + 1 + told, config.width, config.depth)
        self.register_buffer("reach", torch.full((), 10.0))

    @property
    def exact(self) -> bool:
        """Whether ln p(x) is exact, not an estimate."""
        return math.prod(self.config.shape) <= EXACT_VALUES

    def given(self, parts: Parts, context: Tensor | None, dtype: torch.dtype = torch.float64) -> Given:
        """What is known of wholes."""
        return Given(parts, context, context_size(self.config.context), dtype)

    # -- from W to x and back ------------------------------------------------------------------------------------

    def wholes(self, deviation: Tensor, given: Given, steps: int | None = None) -> Tensor:
        """x, float32 (B, *shape), of W - E W.  deviation: (B, T), in the base's units.  steps: where fewer do."""
        spread = self._spread(given)
        u = (deviation / spread).to(self.field.last.weight.dtype)
        u = apply(self.field, u, self._embedded(given), steps or self.config.steps)
        reach = self.reach.to(spread.dtype)
        w = self.base.mean(given.counts, given.context) + spread * u.to(spread.dtype).clamp(-reach, reach)
        x = self.link.inverse(w * self._unit(given), given.sizes)
        if self.config.integers:
            x = x.round()
        x = within(x, self.config.lower, self.config.upper)
        return x.float().view(len(x), *self.config.shape)

    def deviations(self, x: Tensor, given: Given) -> Tensor:
        """W - E W, float64 (B, T), of x: the map solved backwards.  x: (B, *shape)."""
        u = self._standardised(x, given)
        u = invert(self.field, u.to(self.field.last.weight.dtype), self._embedded(given), self.config.steps)
        return u.to(given.counts.dtype) * self._spread(given)

    def draw(
        self,
        parts: Parts,
        context: Tensor | None,
        source: NormalSource,
        z: Tensor | None = None,
        steps: int | None = None,
    ) -> Tensor:
        """One whole for each row, float32 (B, *shape).  context: (B, E).  z: (B, Z), drawn where not given."""
        given = self.given(parts, context)
        return self.wholes(self.base.draw(given.counts, given.context, source, z), given, steps)

    def log_prob(self, batch: Batch) -> Tensor:
        """ln p(x | parts, context), nats float64 (B,); wholes with one z together, split equally over them.

        Whole numbers: their probability, p * noise at them over the noise's own density.
        """
        given = self.given(batch.parts, batch.context)
        x = batch.x.flatten(1).to(given.counts.dtype)
        dtype, embedded = self.field.last.weight.dtype, self._embedded(given)
        u = invert(self.field, self._standardised(x, given).to(dtype), embedded, self.config.steps)
        _, slope = log_determinant(self.field, u, embedded, self.config.steps)
        spread = self._spread(given)
        density = self.base.log_prob(u.to(spread.dtype) * spread, given.counts, given.context, batch.shared)
        units = self.link.log_slope(x, given.sizes) - self._unit(given).log()
        total = density - slope.to(spread.dtype) + units.sum(1)
        if self.config.integers:
            total = total + x.shape[1] * math.log(DEQUANTISED * math.sqrt(2 * math.pi))
        return total

    @torch.no_grad()
    def whitened_square(self, batch: Batch) -> float:
        """Mean |u|^2 / T of wholes taken back to the base, u white under it: 1 where base and map are right."""
        given = self.given(batch.parts, batch.context)
        square = self.base.square(self.deviations(batch.x, given), given.counts, given.context)
        return float(square.mean()) / batch.x[0].numel()

    def _standardised(self, x: Tensor, given: Given) -> Tensor:
        """(W - E W) / spread of x, (B, T); what lies on a limit is put into the middle of its interval beyond it."""
        x = x.flatten(1).to(given.counts.dtype)
        w = self.link(x, given.sizes) / self._unit(given)
        u: Tensor = (w - self.base.mean(given.counts, given.context)) / self._spread(given)
        return u + self._beyond(x) * (self.config.atom / 2)

    def _beyond(self, x: Tensor) -> Tensor:
        """-1 for values on the lower limit, 1 for those on the upper one, (B, T); integers have intervals already."""
        on = torch.zeros_like(x)
        if not self.config.integers:
            if self.config.lower is not None:
                on = on - (x <= self.config.lower).to(x.dtype)
            if self.config.upper is not None:
                on = on + (x >= self.config.upper).to(x.dtype)
        return on

    def _spread(self, given: Given) -> Tensor:
        """(Var W_t + quiet^2 mean_t Var W)^(1/2), (B, T): the units of the map.

        In units of their own spread alone, values that hardly vary have rare outliers that drown all others.
        """
        variance = self.base.spread(given.counts, given.context).square()
        return (variance + self.config.quiet**2 * variance.mean(1, keepdim=True)).sqrt()

    def _unit(self, given: Given) -> Tensor:
        """y over W, (T,) or (B, T)."""
        scale = self.base.scale.to(given.counts.dtype)
        return scale if self.config.extensive else scale / given.sizes

    def _embedded(self, given: Given) -> Tensor:
        return self.field.embed(given.condition().to(self.field.last.weight.dtype))

    # -- training ------------------------------------------------------------------------------------------------

    def matching_loss(self, batch: Batch, noise: Noise) -> Tensor:
        """The mean squared error of the velocity at one time for each whole, weighted, (B,); weights have mean 1."""
        given = self.given(batch.parts, batch.context, batch.x.dtype)
        x = batch.x.flatten(1)
        with torch.no_grad():
            spread = self._spread(given)
            first = self.base.draw(given.counts, given.context, noise) / spread
            last = self._blurred(x, given, noise)
            time = _times(noise).to(x.dtype)
            between = torch.lerp(first, last, time)
        said: Tensor = self.field(between, time, self._embedded(given))
        known = (2 * time - 1) / path_scale(time).square() * between
        weight = row_weights(batch.parts).to(x.dtype)
        return (said - (last - first - known)).square().mean(1) * weight / weight.mean()

    def _blurred(self, x: Tensor, given: Given, noise: Noise) -> Tensor:
        """Wholes as the map sees them in training, (B, T): integers and limits as intervals, and a floor of noise."""
        values = x.shape[1]
        if self.config.integers:
            x = x + DEQUANTISED * noise.normal("dequantised", values).to(x.dtype)
        u = self._standardised(x, given)
        on = self._beyond(x)
        if on.any():
            u = u + on * (noise.uniform("limit", values).to(x.dtype) - 0.5) * self.config.atom
        return u + self.config.floor * noise.normal("floor", values).to(x.dtype)

    @torch.no_grad()
    def measure_reach_(self, x: Tensor, parts: Parts, context: Tensor | None, chunk: int = 1000) -> None:
        """Set ``reach`` from data.  x: (N, *shape)."""
        farthest = 1.0
        for start in range(0, len(x), chunk):
            rows = slice(start, start + chunk)
            given = self.given(parts.rows(rows), None if context is None else context[rows])
            farthest = max(farthest, float(self._standardised(x[rows], given).abs().max()))
        self.reach.fill_(SLACK * farthest)


def base_of(config: TransportConfig) -> Base:
    """A base of this form, not fitted yet."""
    covariates, flags = context_size(config.context), flag_columns(config.context) if config.draws_context else ()
    return Base(config.parts.n_kinds, math.prod(config.shape), config.rank, config.factors, covariates, flags)


def _times(noise: Noise) -> Tensor:
    """(U + r / golden ratio) mod 1 of row r, (B, 1) float64: each uniform on (0, 1), and evenly spread in a batch."""
    common = noise.common().uniform("time", 1, dtype=torch.float64)
    return (common + noise.rows[:, None] * (math.sqrt(5) - 1) / 2) % 1


def row_weights(parts: Parts) -> Tensor:
    """1 / sqrt(K), (B,): few parts are farthest from a Gaussian; a weight of K alone biases nothing."""
    return parts.sizes.double().rsqrt()
