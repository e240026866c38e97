"""The feeder of docs/households.md, evaluated home by home and half-hour by half-hour."""

import math
from dataclasses import dataclass

import numpy as np

from compvae import problems
from compvae.problems.households.profiles import PROFILES, SLOTS

FEEDER = problems.get("households")


@dataclass
class Home:
    """One home by the formulas of docs/households.md, one number after the other."""

    profile: str
    specifics: np.ndarray

    def value(self, name: str) -> float:
        return float(self.specifics[FEEDER.specific_names.index(name)])

    def load(self, temperature: float, cloud: float, match: float, day_type: float) -> np.ndarray:
        own = PROFILES[self.profile]
        degrees = 1.5 * math.log1p(math.exp((15.5 - temperature) / 1.5))
        heating = self.value("heat_loss") * degrees / (2.9 + 0.05 * (temperature - 7))
        cold = 1 + 0.02 * (9 - temperature)
        x = np.full(48, own.standby * self.value("size") + 0.75 * heating)
        for slot, use in zip(SLOTS, own.uses, strict=True):
            start, chance = use.weekend if day_type and use.weekend else (use.start, use.chance)
            drawn = self.value(f"{slot}_chance")
            if drawn < np.float32(chance):
                lives = slot in ("wake", "day", "evening")
                kw = (
                    use.kw * (self.value("size") * cold if lives else 1)
                    + {"wake": 0.9, "evening": 0.4}.get(slot, 0) * heating
                )
                begin = start + self.value("shift") + self.value(f"{slot}_start")
                x += pulse(begin, use.hours * (0.5 + drawn / chance), kw)
        if match and self.value("watching"):
            x += pulse(20, 2, 0.1) + pulse(20.75, 0.03, 2.6) + pulse(21.75, 0.03, 2.6)
        for t in range(48):
            hour = t / 2 + 0.25
            if 6 < hour < 18:
                sky = 0.6 * math.sin(math.pi * (hour - 6) / 12) ** 1.5
                x[t] -= self.value("panels") * sky * (1 - 0.75 * cloud**3.4)
        return x


def pulse(begin: float, hours: float, kw: float) -> np.ndarray:
    """Mean power in each half-hour, by the overlap with it of yesterday's, today's and tomorrow's pulse."""
    x = np.zeros(48)
    for t in range(48):
        for around in (-48, -24, 0, 24, 48):
            overlap = min(begin + around + hours, t / 2 + 0.5) - max(begin + around, t / 2)
            x[t] += kw * max(0.0, overlap) / 0.5
    return x


def feeder(profiles: list[str], specifics: np.ndarray, **factors: float) -> np.ndarray:
    total = sum(Home(name, row).load(**factors) for name, row in zip(profiles, specifics, strict=True))
    return total + 0.05 * total**2 / (2.5 * len(profiles))
