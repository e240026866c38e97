"""y = T(x; K): the units in which parts add up, one value at a time, monotone and defined on the whole line.

    identity     y = x                                  sums, averages
    bend         y = s (v + ln(1 - e^-v)),  v = x / s   x >= 0; s = unit sqrt(K) (x grows) or unit / sqrt(K): a
                                                        logarithm for few parts, the identity for many
    log          y = ln x                               products
    saturation   y = -ln(1 - x / top)                   x = top (1 - exp(-sum)): what adds up is seen through a limit
    logit        y = ln(x / (top - x))                  shares between two limits

Each goes on as a straight line beyond the part of its range where it is steep, so that it can be inverted everywhere
and an atom on a limit (readings of exactly 0) is an interval beyond the limit: draws from it are put back on the limit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from compvae.transport.config import LinkName

__all__ = ["Link", "within"]

NEAR_ZERO, NEAR_LIMIT = 0.02, 1e-3  # nearer to a limit than this, the straight line begins
BENT = 2.0  # unit of a bend over the mean of a part: below it loads are seen as logarithms (docs/experiments.md, 18)
HEADROOM = 1e-3  # of the data's range, between the largest value and the limit of a saturating link

Pointwise = Callable[[Tensor], Tensor]


def within(value: Tensor, low: float | None, high: float | None) -> Tensor:
    """The value, no farther than its limits, where there are any."""
    return value if low is None and high is None else value.clamp(low, high)


@dataclass(frozen=True)
class Curve:
    """A monotone function of v, its inverse and its slope; straight lines below ``low`` and above ``high``."""

    inner: Pointwise
    back: Pointwise
    slope: Pointwise
    low: float | None = None
    high: float | None = None

    def __call__(self, v: Tensor) -> Tensor:
        """v: any shape."""
        inside = within(v, self.low, self.high)
        return self.inner(inside) + self.slope(inside) * (v - inside)

    def inverse(self, y: Tensor) -> Tensor:
        """y: any shape."""
        ends = (None if end is None else float(self.inner(y.new_tensor(end))) for end in (self.low, self.high))
        inside = within(y, *ends)
        v = self.back(inside)
        return v + (y - inside) / self.slope(v)

    def log_slope(self, v: Tensor) -> Tensor:
        """ln of the slope at v, any shape."""
        return self.slope(within(v, self.low, self.high)).log()


CURVES: dict[LinkName, Curve] = {
    "bend": Curve(lambda v: v + torch.log(-torch.expm1(-v)), softplus, lambda v: 1 / -torch.expm1(-v), low=NEAR_ZERO),
    "log": Curve(torch.log, torch.exp, torch.reciprocal, low=NEAR_LIMIT),
    "saturation": Curve(
        lambda v: -torch.log1p(-v), lambda y: -torch.expm1(-y), lambda v: 1 / (1 - v), high=1 - NEAR_LIMIT
    ),
    "logit": Curve(torch.logit, torch.sigmoid, lambda v: 1 / (v * (1 - v)), NEAR_LIMIT, 1 - NEAR_LIMIT),
}


class Link(nn.Module):
    """T and its inverse.

    unit: v is measured in, of each value, (T,).  low: where v is 0, ().
    """

    unit: Tensor
    low: Tensor

    def __init__(self, name: LinkName, values: int, extensive: bool) -> None:
        super().__init__()
        self.name, self.extensive, self.curve = name, extensive, CURVES.get(name)
        self.register_buffer("unit", torch.ones(values))
        self.register_buffer("low", torch.zeros(()))

    def fit_(self, x: Tensor, sizes: Tensor) -> Link:
        """Units and limits from data.  x: (N, T), sizes: K, (N, 1)."""
        low, high = x.min(), x.max()
        if self.name == "bend":
            each = (x / sizes if self.extensive else x).mean(0)
            self.unit.copy_(BENT * (each + NEAR_ZERO * each.mean()))
        elif self.name == "log":
            self.unit.copy_(x.median(0).values)
        elif self.name in ("saturation", "logit"):
            room = HEADROOM * (high - low)
            self.low.copy_(low - room if self.name == "logit" else low.clamp(max=0.0))
            self.unit.fill_(high + room - self.low)
        return self

    def forward(self, x: Tensor, sizes: Tensor) -> Tensor:
        """x: (B, T) -> y (B, T).  sizes: K, (B, 1)."""
        if self.curve is None:
            return x
        unit = self._unit(sizes)
        y = self.curve((x - self.low) / unit)
        return y * unit if self.name == "bend" else y

    def inverse(self, y: Tensor, sizes: Tensor) -> Tensor:
        """y: (B, T) -> x (B, T).  sizes: K, (B, 1)."""
        if self.curve is None:
            return y
        unit = self._unit(sizes)
        return self.curve.inverse(y / unit if self.name == "bend" else y) * unit + self.low

    def log_slope(self, x: Tensor, sizes: Tensor) -> Tensor:
        """ln dy/dx, (B, T), arguments as in forward."""
        if self.curve is None:
            return torch.zeros_like(x)
        unit = self._unit(sizes)
        slope = self.curve.log_slope((x - self.low) / unit)
        return slope if self.name == "bend" else slope - unit.log()

    def _unit(self, sizes: Tensor) -> Tensor:
        """What x is measured in, (B, T) or (T,): that of the bend falls behind x as K grows, so that it fades."""
        if self.name != "bend":
            return self.unit
        return self.unit * (sizes.sqrt() if self.extensive else sizes.rsqrt())
