"""What all homes of a feeder share: temperature T, cloud n, a match, the type of the day; and what it does to a home.

T ~ N(9, 5.5^2) within -15..35 C;  n = u^(1/3);  a match on one day in five;  two days of seven are a weekend.
Living grows by 2% for each kelvin below 9 C.  A heat pump draws (heat loss) D(T) / COP(T) with D a smooth
max(15.5 - T, 0).  Panels give 1 - 0.75 n^3.4 of what they give under a clear sky (Kasten & Czeplak 1980).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from compvae.noise import Noise
from compvae.parts import Categorical, Continuous

__all__ = ["CONTEXT", "SHARED", "Effects", "draw_days"]

TEMPERATURE = Continuous(name="temperature", low=-15.0, high=35.0, unit="C, mean of the day")
CLOUD = Continuous(name="cloud", low=0.0, high=1.0, unit="of the sky")
MATCH = Categorical(name="match", categories=("no", "yes"))
DAY_TYPE = Categorical(name="day_type", categories=("workday", "weekend"))
SHARED = (TEMPERATURE, CLOUD, MATCH, DAY_TYPE)
CONTEXT = (DAY_TYPE, TEMPERATURE)  # what can be observed

USUAL, SPREAD = 9.0, 5.5  # C
CLOUD_POWER = 1 / 3
MATCH_CHANCE, WEEKEND_CHANCE = 0.2, 2 / 7
COLD = 0.02  # of living, for each kelvin
HEATING_FROM, SOFTNESS = 15.5, 1.5  # C
COP_AT_7, COP_SLOPE = 2.9, 0.05


def draw_days(noise: Noise) -> Tensor:
    """One day for each row of noise: SHARED, (B, 4) float32; match is 1 where there is one, day_type 1 at weekends."""
    uniform = noise.uniform("day", len(SHARED), dtype=torch.float64)
    low, high = (torch.special.ndtr(torch.tensor((t - USUAL) / SPREAD)) for t in (TEMPERATURE.low, TEMPERATURE.high))
    temperature = USUAL + SPREAD * torch.special.ndtri(low + uniform[:, 0] * (high - low))
    match, weekend = uniform[:, 2] < MATCH_CHANCE, uniform[:, 3] < WEEKEND_CHANCE
    return torch.stack([temperature, uniform[:, 1] ** CLOUD_POWER, match, weekend], 1).float()


class Day(NamedTuple):
    """The columns of a (B, 4) tensor of factors, (B,) each."""

    temperature: Tensor
    cloud: Tensor
    match: Tensor
    day_type: Tensor


@dataclass(frozen=True)
class Effects:
    """What days do to homes, (B,) each.

    living: factor on living.  heating: kW of electricity for each kW/K of heat loss.  sun: share of a clear sky's.
    match: bool.  weekend: int64, 0 or 1.
    """

    living: Tensor
    heating: Tensor
    sun: Tensor
    match: Tensor
    weekend: Tensor

    @classmethod
    def of(cls, factors: Tensor) -> Effects:
        """factors: (B, 4)."""
        day = Day(*factors.unbind(1))
        degrees = SOFTNESS * softplus((HEATING_FROM - day.temperature) / SOFTNESS)
        return cls(
            living=1 + COLD * (USUAL - day.temperature),
            heating=degrees / (COP_AT_7 + COP_SLOPE * (day.temperature - 7)),
            sun=1 - 0.75 * day.cloud**3.4,
            match=day.match > 0.5,
            weekend=(day.day_type > 0.5).long(),
        )

    def at(self, rows: Tensor) -> Effects:
        """The effects on homes of these wholes.  rows: (P,) int64."""
        return Effects(*(getattr(self, name)[rows] for name in ("living", "heating", "sun", "match", "weekend")))
