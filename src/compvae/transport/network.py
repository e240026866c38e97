"""Transport: x = T^-1( E W + C map( C^-1 (W - E W); n, context ) ), W ~ base, C its units: invertible from end to end.

Trained by flow matching (Lipman et al. 2023) from draws of that base, u_0, to data, u_1, both in the units of units.py:

    E | v((1 - t) u_0 + t u_1, t | n / K, 1 / sqrt K, context) - (u_1 - u_0) |^2

A sum of squares: no bound, no encoder, nothing to balance.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from compvae.batch import Batch, Parts
from compvae.context import context_size
from compvae.noise import Noise, NormalSource
from compvae.transport.base import Base
from compvae.transport.config import TransportConfig
from compvae.transport.convolution import ConvolutionField
from compvae.transport.covariates import Covariates
from compvae.transport.field import VelocityField, path_scale
from compvae.transport.flow import EXACT_VALUES, Field, apply, invert, log_determinant, roughly_inverted
from compvae.transport.given import CountedGiven, Given, PlacedGiven
from compvae.transport.link import Link, within
from compvae.transport.placed import PlacedBase
from compvae.transport.units import RootUnits, SpreadUnits, Units

__all__ = ["DEQUANTISED", "Transport", "base_of", "row_weights"]

DEQUANTISED = 0.15  # standard deviation of the noise on whole numbers: what is drawn within 1/2 is put back
MAP_NUMBERS = 2**16  # values of wholes that go through convolutions at once
FITTED_PLACES = 256  # of wholes, that a step of that fit looks at
ROUGH_STEPS = 4  # of the map, where candidates are compared
SLACK = 1.25  # how far draws may go, over the farthest of the data, in units of the spread


class Transport(nn.Module):
    """An invertible model.  reach: how far from its mean a whole may be, in units of the base's spread, ()."""

    reach: Tensor

    def __init__(self, config: TransportConfig) -> None:
        super().__init__()
        self.config = config
        values, kinds, told = math.prod(config.shape), config.parts.n_kinds, context_size(config.context)
        self.link = Link(config.link, values, config.extensive)
        self.covariates = Covariates(config.context, config.seen)
        self.base: Base | PlacedBase
        self.field: VelocityField | ConvolutionField
        if config.places is None:
            self.base = base_of(config)
            self.field = VelocityField(values, 2 * kinds + 1 + told, config.width, config.depth)
        else:
            self.base = PlacedBase(config, told)
            condition = config.places.hidden + 3 * self.base.channels + told
            self.field = ConvolutionField(config.shape, condition, config.width, config.depth)
        self.register_buffer("reach", torch.full((), 10.0))

    @property
    def exact(self) -> bool:
        """Whether ln p(x) is exact, not an estimate."""
        return math.prod(self.config.shape) <= EXACT_VALUES

    def given(self, parts: Parts, context: Tensor | None, dtype: torch.dtype = torch.float64) -> Given:
        """What is known of wholes."""
        told = context_size(self.config.context)
        if isinstance(self.base, PlacedBase):
            return PlacedGiven(self.base, parts.padded(), context, told, dtype)
        return CountedGiven(self.base, parts, context, told, dtype)

    def completed(self, context: Tensor | None, source: NormalSource, rows: int) -> Tensor | None:
        """Context with a draw in the place of what is unknown, (B, E), B = rows.  context: (B, E), None: unknown."""
        if not self.config.seen:
            return context
        unknown = torch.zeros(rows, context_size(self.config.context))
        return self.covariates.complete(unknown if context is None else context, source)

    # -- from W to x and back ------------------------------------------------------------------------------------

    def wholes(self, deviation: Tensor, given: Given, steps: int | None = None) -> Tensor:
        """x, float32 (B, *shape), of W - E W.  deviation: (B, T), in the base's units.  steps: where fewer do."""
        units = self._units(given)
        u = self._through(apply, units.into(deviation), given, steps).to(deviation.dtype)
        reach = self.reach.to(u.dtype)
        w = given.mean + units.back(u.clamp(-reach, reach))
        x = self.link.inverse(w * self._unit(given), given.sizes)
        if self.config.integers:
            x = x.round()
        x = within(x, self.config.lower, self.config.upper)
        if self.config.nonnegative:
            x = torch.where(self._nonnegative(given), x.clamp(min=0), x)
        return x.float().view(len(x), *self.config.shape)

    def deviations(self, x: Tensor, given: Given) -> Tensor:
        """W - E W, float64 (B, T), of x: the map solved backwards.  x: (B, *shape)."""
        u = self._through(invert, self._standardised(x, given), given)
        return self._units(given).back(u.to(given.counts.dtype))

    def draw(
        self,
        parts: Parts,
        context: Tensor | None,
        source: NormalSource,
        z: Tensor | None = None,
        steps: int | None = None,
    ) -> Tensor:
        """One whole for each row, float32 (B, *shape).  context: (B, E).  z: (B, Z), drawn where not given."""
        given = self.given(parts, self.completed(context, source, len(parts)))
        return self.wholes(given.draw(source, z), given, steps)

    def log_density(self, batch: Batch, context: Tensor | None) -> Tensor:
        """ln p(x | parts, context), nats float64 (B,); wholes with one z together, split equally over them.

        Whole numbers: their probability, p * noise at them over the noise's own density.  context: all known, (B, E).
        """
        given = self.given(batch.parts, context)
        x = batch.x.flatten(1).to(given.counts.dtype)
        u = self._through(invert, self._standardised(x, given), given)
        slope = self._through(lambda *map_: log_determinant(*map_)[1], u, given)
        density = given.log_prob(self._units(given).back(u.to(x.dtype)), batch.shared)
        change = self.link.log_slope(x, given.sizes) - self._unit(given).log()
        total = density - slope.to(x.dtype) + change.sum(1)
        if self.config.integers:
            total = total + x.shape[1] * math.log(DEQUANTISED * math.sqrt(2 * math.pi))
        return total

    def rough_density(self, batch: Batch, contexts: Tensor) -> Tensor:
        """About ln p(x | parts, context) but for what depends on x and parts alone, of A contexts each, (B, A).

        By a short map, without its determinant.  contexts: (B, A, E).
        """
        number = contexts.shape[1]
        rows = torch.arange(len(batch)).repeat_interleave(number)
        given = self.given(batch.parts.rows(rows), contexts.flatten(0, 1))
        u = self._through(roughly_inverted, self._standardised(batch.x[rows], given), given, ROUGH_STEPS)
        deviation = self._units(given).back(u.to(given.counts.dtype))
        if isinstance(self.base, PlacedBase):
            return given.log_prob(deviation).view(-1, number)
        factor = self.base.factor(given.context)  # all that differs between the covariances of one whole
        scaled = (deviation / factor).view(len(batch), number, -1).mT
        own = self.base.factorised(batch.parts.counts.to(scaled.dtype))
        return -0.5 * own.square(scaled) - (scaled.shape[1] * factor.log()).view(-1, number)

    def _standardised(self, x: Tensor, given: Given) -> Tensor:
        """W - E W of x in the units of the map, (B, T); what lies on a limit is in the middle of an interval beyond."""
        x = x.flatten(1).to(given.counts.dtype)
        w = self.link(x, given.sizes) / self._unit(given)
        return self._units(given).into(w - given.mean) + self._beyond(x) * (self.config.atom / 2)

    def _beyond(self, x: Tensor) -> Tensor:
        """-1 for values on the lower limit, 1 for those on the upper one, (B, T); integers have intervals already."""
        on = torch.zeros_like(x)
        if not self.config.integers:
            if self.config.lower is not None:
                on = on - (x <= self.config.lower).to(x.dtype)
            if self.config.upper is not None:
                on = on + (x >= self.config.upper).to(x.dtype)
        return on

    def _nonnegative(self, given: Given) -> Tensor:
        """Whether all parts of a whole are of kinds that are never below 0, (B, 1) bool."""
        return given.counts[:, list(self.config.nonnegative)].sum(1, keepdim=True) == given.sizes

    def _units(self, given: Given) -> Units:
        """What the map measures W - E W in."""
        return RootUnits(given.gaussian) if self.config.whitened else SpreadUnits(given.spread, self.config.quiet)

    def _unit(self, given: Given) -> Tensor:
        """y over W, (T,) or (B, T)."""
        scale = self.base.scale.to(given.counts.dtype)
        return scale if self.config.extensive else scale / given.sizes

    def _embedded(self, given: Given) -> Tensor:
        """Of each different composition, (D, ..)."""
        return self.field.embed(given.condition().to(self.field.last.weight.dtype))

    def _through(
        self,
        function: Callable[[Field, Tensor, Tensor, int], Tensor],
        u: Tensor,
        given: Given,
        steps: int | None = None,
    ) -> Tensor:
        """What a function of the map gives for u, (B, T); convolutions a few rows at a time, for the cache."""
        steps = steps or self.config.steps
        u, embedded, rows = u.to(self.field.last.weight.dtype), self._embedded(given), given.rows
        size = len(u) if self.config.places is None else max(1, MAP_NUMBERS // u.shape[1])
        pieces = [
            function(self.field, u[start : start + size], embedded[rows[start : start + size]], steps)
            for start in range(0, len(u), size)
        ]
        return torch.cat(pieces)

    # -- training ------------------------------------------------------------------------------------------------

    def matching_loss(self, batch: Batch, noise: Noise) -> Tensor:
        """The mean squared error of the velocity at one time for each whole, weighted, (B,); weights have mean 1."""
        x = batch.x.flatten(1)
        with torch.no_grad():
            given = self.given(batch.parts, self.completed(batch.all_told, noise, len(batch)), batch.x.dtype)
            first = self._units(given).into(given.draw(noise))
            last = self._blurred(x, given, noise)
            time = _times(noise).to(x.dtype)
            between = torch.lerp(first, last, time)
        said: Tensor = self.field(between, time, self._embedded(given)[given.rows])
        known = (2 * time - 1) / path_scale(time).square() * between
        weight = row_weights(batch.parts).to(x.dtype)
        return (said - (last - first - known)).square().mean(1) * weight / weight.mean()

    def base_steps(self, steps: int) -> int:
        """How many of the first steps fit the base by likelihood; none where that has a closed form."""
        return 0 if self.config.places is None else int(self.config.places.share * steps)

    def base_loss(self, batch: Batch, noise: Noise) -> Tensor:
        """- ln p(W) a value, jointly and of each alone, and the cost of the link, (B,); large wholes at some places.

        Alone: of wholes with many values and few factors, the joint density hardly says where the few have their mean.
        """
        base, x = self.base, batch.x.flatten(1)
        assert isinstance(base, PlacedBase)
        at = noise.permutation("places", x.shape[1] // base.channels)[:FITTED_PLACES].sort().values
        told = context_size(self.config.context)
        context = self.completed(batch.all_told, noise, len(batch))
        given = PlacedGiven(base, batch.parts.padded(), context, told, x.dtype, at)
        w = base.values_at(self.link(x, given.sizes) / self._unit(given), at)
        deviation, spread = w - given.mean, given.spread
        alone = (spread.log() + (deviation / spread).square() / 2).mean(1)
        loss: Tensor = alone - given.log_prob(deviation, batch.shared) / w.shape[1] + base.link.cost()
        return loss

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
    covariates = context_size(config.context)
    return Base(config.parts.n_kinds, math.prod(config.shape), config.rank, config.factors, covariates)


def _times(noise: Noise) -> Tensor:
    """(U + r / golden ratio) mod 1 of row r, (B, 1) float64: each uniform on (0, 1), and evenly spread in a batch."""
    common = noise.common().uniform("time", 1, dtype=torch.float64)
    return (common + noise.rows[:, None] * (math.sqrt(5) - 1) / 2) % 1


def row_weights(parts: Parts) -> Tensor:
    """1 / sqrt(K), (B,): few parts are farthest from a Gaussian; a weight of K alone biases nothing."""
    return parts.sizes.double().rsqrt()
