"""Homes by day: which homes have a complete day, and random groups of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from compvae.checks import at_least_one
from compvae.data.meter_days import MeterDays
from compvae.errors import DataError
from compvae.noise import Noise
from compvae.problems.blocks import Neighbours, log_uniform

__all__ = ["Pool"]

WINDOW = 2048  # homes of a day that a draw looks at: bounds its cost where there are very many
EVENNESS = 3.0  # shares of the profiles are e^v, e exponential, v uniform on 0..3
AT_ONCE = 2**22


@dataclass(frozen=True)
class Pool:
    """Complete days of some homes, in the order of the days.

    days: those that have enough homes, positions in MeterDays.dates, (P,).  start, count: where the homes of each
    stand in ``record`` (P,).  record: positions in MeterDays.kw, (N,).  kind: profile, of every position in kw.
    """

    days: np.ndarray
    start: np.ndarray
    count: np.ndarray
    record: np.ndarray
    kind: Tensor

    @classmethod
    def of(cls, days: MeterDays, mask: np.ndarray, order: np.ndarray, profiles: np.ndarray, at_least: int) -> Pool:
        """mask: which days of meters, (N,) bool.  order: rank of each home in a day, (H,).  profiles: (H,)."""
        record = np.flatnonzero(mask)
        record = record[np.lexsort((order[days.meter[record]], days.day[record]))]
        found, start, count = np.unique(days.day[record], return_index=True, return_counts=True)
        enough = count >= at_least
        kind = torch.from_numpy(profiles[days.meter])
        return cls(found[enough], start[enough], count[enough], record, kind)

    def groups(self, rows: Neighbours, max_parts: int, noise: Noise, common: Noise) -> tuple[Tensor, Tensor, Tensor]:
        """Disjoint groups of homes on common days: (day of each row (B,), row of each home (P,), its record (P,)).

        The homes of a day are dealt out among the rows that share it; of its hand each row takes K homes, profiles with
        shares of its own.  common: noise that rows which belong together have in common.
        """
        start, count = torch.from_numpy(self.start), torch.from_numpy(self.count)
        position = common.integers("day", 0, len(self.days) - 1)
        seen = count[position].clamp(max=WINDOW)
        place = torch.arange(int(seen.max()))
        shuffle = common.uniform("pool", len(place)).masked_fill_(place >= seen[:, None], 2.0)
        order = shuffle.argsort(dim=1, stable=True)

        hand = (seen // rows.members).clamp(min=1)
        seat = torch.arange(int(hand.max()))
        dealt = order.gather(1, (rows.position[:, None] * hand[:, None] + seat) % seen[:, None])
        offset = (common.uniform("window", dtype=torch.float64) * count[position]).long()
        record = start[position][:, None] + (offset[:, None] + dealt) % count[position][:, None]
        record = torch.from_numpy(self.record)[record]

        taken = self._race(record, seat < hand[:, None], noise)
        size = log_uniform(noise, 1, hand.clamp(max=max_parts))
        whole, at = (torch.arange(int(size.max())) < size[:, None]).nonzero(as_tuple=True)
        return torch.from_numpy(self.days)[position], whole, record[whole, taken[whole, at]]

    def _race(self, record: Tensor, there: Tensor, noise: Noise) -> Tensor:
        """Seats in the order in which their homes are taken, (B, S): the larger the share of a profile, the sooner."""
        kinds = int(self.kind.max()) + 1
        shares = (-noise.uniform("shares", kinds).log_()) ** (EVENNESS * noise.uniform("evenness", 1))
        waiting = -noise.uniform("race", record.shape[1]).log_() / shares.gather(1, self.kind[record])
        order: Tensor = waiting.masked_fill_(~there, torch.inf).argsort(dim=1, stable=True)
        return order

    def sets(
        self, n: int, size: int, seed: int, days: MeterDays, together: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """n sets of ``size`` homes of one day: day (n,), home (n, size), record (n, size).

        together=False: the same homes, each on a day of its own out of those it has here.
        """
        n, size = at_least_one(n, "n"), at_least_one(size, "size")
        if not len(self.days):
            raise DataError(f"no day has readings of {size} such homes; ask for fewer, or for homes='all', days='all'")
        noise = Noise(seed, n)
        position = noise.integers("day", 0, len(self.days) - 1).numpy()
        width = int(self.count.max())
        record = np.empty((n, size), np.int64)
        height = max(1, AT_ONCE // width)
        for first in range(0, n, height):
            rows = slice(first, min(first + height, n))
            key = noise.at(torch.arange(rows.start, rows.stop)).uniform("homes", width).numpy().copy()
            key[np.arange(width) >= self.count[position[rows]][:, None]] = 2.0
            chosen = np.argsort(key, 1, kind="stable")[:, :size]
            record[rows] = self.record[self.start[position[rows]][:, None] + chosen]
        home = days.meter[record]
        if not together:
            record = self._elsewhere(home, days, noise)
        return self.days[position], home, record

    def _elsewhere(self, home: np.ndarray, days: MeterDays, noise: Noise) -> np.ndarray:
        """A random day of each home, among those of this pool.  home: (n, size) -> records (n, size)."""
        by_home = self.record[np.argsort(days.meter[self.record], kind="stable")]
        count = np.bincount(days.meter[by_home], minlength=len(days.meters))
        start = np.cumsum(count) - count
        drawn = noise.uniform("elsewhere", home.shape[1], dtype=torch.float64).numpy()
        record: np.ndarray = by_home[start[home] + (drawn * count[home]).astype(np.int64)]
        return record
