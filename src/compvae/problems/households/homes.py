"""Homes: load_i(t) = standby_i + heating_i + sum_j power_ij [start_ij <= t < start_ij + hours_ij] - panels_i sun(t).

A home is a steady draw and a list of rectangular pulses, whose mean over each half-hour is taken exactly.  Pulses wrap
around midnight: what was switched on late yesterday still runs this morning.  Loads are added up for each whole as they
come, so that memory does not grow with the number of homes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from compvae.noise import Noise
from compvae.problems.households.day import Effects
from compvae.problems.households.profiles import BOOST, LIVING, PROFILES, SLOTS

__all__ = ["HALF_HOURS", "SPECIFICS", "Homes"]

HALF_HOURS = 48
SPECIFICS = (
    "size", "shift", "heat_loss", "panels", "watching",
    *(f"{slot}_chance" for slot in SLOTS), *(f"{slot}_start" for slot in SLOTS),
)  # fmt: skip
SIZE_SPREAD = 0.3  # of ln size
SHIFT_SPREAD = 0.6  # hours: early and late households
STEADY = 0.75  # of a heat pump's draw runs through day and night
PEAK_YIELD = 0.6  # kW for each kWp at a clear noon
DAWN, DUSK = 6.0, 18.0
MATCH_PULSES = ((20.0, 2.0, 0.10), (20.75, 0.03, 2.6), (21.75, 0.03, 2.6))  # start, hours, kW: on, two kettles


@dataclass(frozen=True)
class _Tables:
    """PROFILES as tensors: start, chance (2, C, M) by day type; hours, kw, jitter (C, M); the others (C,) or (C, 2)."""

    start: Tensor
    chance: Tensor
    hours: Tensor
    kw: Tensor
    jitter: Tensor
    standby: Tensor
    watching: Tensor
    heat_loss: Tensor
    panels: Tensor

    @classmethod
    def of_profiles(cls) -> _Tables:
        homes = list(PROFILES.values())
        days = torch.tensor([[[use.on(bool(day)) for use in home.uses] for home in homes] for day in (0, 1)])
        uses = {
            name: [[getattr(use, name) for use in home.uses] for home in homes] for name in ("hours", "kw", "jitter")
        }
        own = {name: [getattr(home, name) for home in homes] for name in ("standby", "watching", "heat_loss", "panels")}
        return cls(
            days[..., 0], days[..., 1], **{name: torch.tensor(values) for name, values in {**uses, **own}.items()}
        )


class Homes:
    """Draws homes and adds up their loads."""

    def __init__(self) -> None:
        self.tables = _Tables.of_profiles()
        self.living = torch.tensor([slot in LIVING for slot in SLOTS])
        self.boost = torch.tensor([BOOST.get(slot, 0.0) for slot in SLOTS])
        middle = (torch.arange(HALF_HOURS, dtype=torch.float64) + 0.5) / 2
        height = (math.pi * (middle - DAWN) / (DUSK - DAWN)).sin()
        self.sky = PEAK_YIELD * height.clamp(min=0) ** 1.5

    def draw(self, kind: Tensor, noise: Noise) -> Tensor:
        """The specifics of homes, independent of the day.  kind: (P,) int64, noise: P rows -> (P, S).

        size: factor on standby and living.  shift: of all habits, hours.  heat_loss: kW/K.  panels: kWp.
        watching: 1 for those who watch a match.  chance: a use happens where it is below the profile's probability.
        start: of a use against the profile's, hours.
        """
        normal, uniform = noise.normal("habits", 2 + len(SLOTS)), noise.uniform("chances", 2 + len(SLOTS))
        size = (SIZE_SPREAD * normal[:, 0] - SIZE_SPREAD**2 / 2).exp()
        heat_loss, panels = (_within(span[kind], uniform[:, 0]) for span in (self.tables.heat_loss, self.tables.panels))
        watching = (uniform[:, 1] < self.tables.watching[kind]).to(size.dtype)
        each = torch.stack([size, SHIFT_SPREAD * normal[:, 1], heat_loss, panels, watching], 1)
        return torch.cat([each, uniform[:, 2:], self.tables.jitter[kind] * normal[:, 2:]], 1)

    def load(self, kind: Tensor, specifics: Tensor, whole: Tensor, effects: Effects) -> Tensor:
        """Sum of the homes of each whole, kW, (B, 48) float64.

        kind: (P,) int64.  specifics: (P, S).  whole: (P,) int64, the row of each home.  effects: of B days.
        """
        size, shift, heat_loss, panels, watching = specifics[:, :5].unbind(1)
        chance, start = specifics[:, 5:].chunk(2, 1)
        felt, tables = effects.at(whole), self.tables
        heating = heat_loss * felt.heating

        # what is switched on; given that it is, it lasts uniformly 1/2 to 3/2 of the table's hours
        likely = tables.chance[felt.weekend, kind]
        hours = tables.hours[kind] * (0.5 + chance / likely)
        begin = tables.start[felt.weekend, kind] + shift[:, None] + start
        living = torch.where(self.living, (size * felt.living)[:, None], 1.0)
        power = tables.kw[kind] * living + self.boost * heating[:, None]
        pulses = _Pulses(len(effects.sun))
        home, slot = (chance < likely).nonzero(as_tuple=True)
        pulses.add(whole[home], begin[home, slot], hours[home, slot], power[home, slot])

        # the match, for those who watch it
        fans = whole[felt.match & (watching > 0.5)]
        for pulse in MATCH_PULSES:
            pulses.add(fans, *torch.tensor(pulse)[:, None].expand(3, len(fans)))

        # what runs all day, and what the panels give
        steady = _by_whole(tables.standby[kind] * size + STEADY * heating, whole, len(effects.sun))
        shining = _by_whole(panels * felt.sun, whole, len(effects.sun))
        return pulses.mean() + steady[:, None] - shining[:, None] * self.sky


def _within(span: Tensor, share: Tensor) -> Tensor:
    """low + share (high - low).  span: (P, 2), share: (P,) -> (P,)."""
    return torch.lerp(span[:, 0], span[:, 1], share)


def _by_whole(value: Tensor, whole: Tensor, size: int) -> Tensor:
    """Sum over the homes of each whole.  value, whole: (P,) -> (size,) float64."""
    return torch.zeros(size, dtype=torch.float64).index_add_(0, whole, value.double())


class _Pulses:
    """Sums of rectangular pulses, kept as second differences of the energy used: four numbers a pulse.

    The mean power in half-hour k is E(k + 1) - E(k), E(t) = power * min(max(t - start, 0), length).  Its difference
    over k is power * f in the cell of the start, where a share f of the cell lies behind it, and power * (1 - f) in the
    next; the same with the sign turned around at the end.
    """

    def __init__(self, wholes: int) -> None:
        self.edges = torch.zeros(wholes, 2 * HALF_HOURS + 2, dtype=torch.float64)

    def add(self, whole: Tensor, start: Tensor, hours: Tensor, power: Tensor) -> None:
        """Pulses of these wholes.  All (N,); start: clock hours, any day; hours: at most 24."""
        begin = torch.remainder(start, 24.0) * 2
        first = whole * self.edges.shape[1]
        for edge, step in ((begin, power), (begin + 2 * hours, -power)):
            cell = edge.floor()
            after = step * (1 - (edge - cell))
            where = first + cell.long()
            flat = self.edges.view(-1)
            flat.index_add_(0, where, after.double())
            flat.index_add_(0, where + 1, (step - after).double())

    def mean(self) -> Tensor:
        """Mean power in each half-hour of the day, kW, (B, 48) float64."""
        power = self.edges.cumsum(1)
        return power[:, :HALF_HOURS] + power[:, HALF_HOURS : 2 * HALF_HOURS]
