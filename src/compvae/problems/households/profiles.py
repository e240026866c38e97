"""The profiles: what a home of each kind switches on, when, for how long, at which power.

Hours are clock hours (18.5 is half past six in the evening), powers kW.  Sources of the numbers: docs/households.md.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BOOST", "LIVING", "PROFILES", "SLOTS", "Profile", "Use"]

SLOTS = ("wake", "shower", "day", "lunch", "dinner", "evening", "chores", "extra")
LIVING = (
    "wake",
    "day",
    "evening",
)  # lights, screens, small heaters: they grow with the size of a home and with the cold
BOOST = {"wake": 0.9, "evening": 0.4}  # what a heat pump adds to its steady running while people are up


@dataclass(frozen=True)
class Use:
    """Something switched on once a day: from about ``start`` on, for about ``hours``, with probability ``chance``.

    jitter: standard deviation of the start, hours.  weekend: (start, chance) where they differ.
    """

    start: float
    hours: float
    kw: float
    chance: float = 1.0
    jitter: float = 0.5
    weekend: tuple[float, float] | None = None

    def on(self, weekend: bool) -> tuple[float, float]:
        """(start, chance) on a day of this type."""
        return self.weekend if weekend and self.weekend else (self.start, self.chance)


@dataclass(frozen=True)
class Profile:
    """A kind of home.

    uses: one for each of SLOTS.  standby: always on, kW.  watching: share of homes that watch a match.
    heat_loss: range of kW of heat for each kelvin, where a heat pump replaces it.  panels: range of kWp.
    """

    uses: tuple[Use, ...]
    standby: float
    watching: float
    heat_loss: tuple[float, float] = (0.0, 0.0)
    panels: tuple[float, float] = (0.0, 0.0)


PROFILES = {
    "flat": Profile(
        standby=0.09,
        watching=0.75,
        uses=(
            Use(6.8, 1.3, 0.22, weekend=(8.8, 1.0)),
            Use(7.2, 0.10, 7.5, 0.65, weekend=(9.3, 0.6)),
            Use(9.5, 5.0, 0.12, 0.3, 1.0, weekend=(10.0, 0.7)),
            Use(12.8, 0.4, 1.2, 0.25, weekend=(13.0, 0.5)),
            Use(18.6, 0.6, 1.6, 0.75, 0.7, weekend=(18.8, 0.65)),
            Use(17.9, 4.8, 0.25, weekend=(17.0, 1.0)),
            Use(19.5, 1.0, 0.9, 0.3, 2.0, weekend=(11.0, 0.45)),
            Use(21.0, 0.2, 1.8, 0.5, 1.0),
        ),
    ),
    "family": Profile(
        standby=0.14,
        watching=0.85,
        uses=(
            Use(6.4, 1.6, 0.35, weekend=(7.8, 1.0)),
            Use(6.9, 0.13, 8.0, 0.9, weekend=(8.6, 0.85)),
            Use(9.0, 6.0, 0.16, 0.45, 1.0, weekend=(9.8, 0.85)),
            Use(12.5, 0.5, 1.5, 0.35, weekend=(12.8, 0.8)),
            Use(17.6, 0.9, 2.1, 0.95, 0.6, weekend=(17.8, 0.9)),
            Use(16.8, 5.4, 0.35),
            Use(14.0, 1.2, 1.1, 0.7, 3.0, weekend=(11.5, 0.9)),
            Use(20.0, 1.1, 1.0, 0.65, 1.0),
        ),
    ),
    "retired": Profile(
        standby=0.11,
        watching=0.6,
        uses=(
            Use(7.4, 1.5, 0.28),
            Use(8.2, 0.10, 7.5, 0.5),
            Use(9.0, 7.5, 0.17, 0.95, 0.7),
            Use(12.3, 0.6, 1.5, 0.85),
            Use(17.4, 0.6, 1.4, 0.7),
            Use(16.6, 5.2, 0.28),
            Use(10.5, 1.0, 1.0, 0.45, 1.5),
            Use(15.3, 0.3, 1.5, 0.7, 0.8),
        ),
    ),
    "home_office": Profile(
        standby=0.12,
        watching=0.6,
        uses=(
            Use(7.3, 1.2, 0.25, weekend=(8.9, 1.0)),
            Use(7.8, 0.12, 8.0, 0.75, weekend=(9.4, 0.7)),
            Use(8.8, 8.3, 0.30, 0.95, 0.4, weekend=(10.5, 0.5)),
            Use(12.5, 0.5, 1.3, 0.75),
            Use(18.5, 0.7, 1.8, 0.85),
            Use(17.8, 4.9, 0.28),
            Use(14.0, 1.0, 1.0, 0.45, 2.0),
            Use(10.5, 0.25, 1.8, 0.8, 0.8),
        ),
    ),
    "heat_pump": Profile(
        standby=0.13,
        watching=0.6,
        heat_loss=(0.11, 0.24),
        uses=(
            Use(6.0, 2.0, 0.30, weekend=(7.0, 1.0)),
            Use(22.0, 0.9, 1.5, 0.4, 0.7),  # no electric shower: the tank is heated again after baths
            Use(9.2, 6.0, 0.15, 0.5, 1.0, weekend=(10.0, 0.8)),
            Use(12.6, 0.5, 1.3, 0.4, weekend=(12.9, 0.7)),
            Use(18.1, 0.8, 1.9, 0.9, 0.6),
            Use(17.0, 5.2, 0.32),
            Use(13.5, 1.2, 1.1, 0.55, 2.5),
            Use(3.5, 1.3, 1.7, 0.95, 0.6),  # the tank, before anybody is up
        ),
    ),
    "electric_car": Profile(
        standby=0.14,
        watching=0.6,
        uses=(
            Use(6.6, 1.4, 0.30, weekend=(8.4, 1.0)),
            Use(7.0, 0.12, 8.0, 0.8, weekend=(9.0, 0.75)),
            Use(9.4, 5.5, 0.14, 0.4, 1.0, weekend=(10.2, 0.7)),
            Use(12.8, 0.5, 1.4, 0.3, weekend=(13.0, 0.6)),
            Use(18.7, 0.7, 1.8, 0.85, 0.7),
            Use(17.9, 4.8, 0.30),
            Use(19.0, 1.1, 1.0, 0.45, 2.0),
            Use(19.2, 1.6, 7.0, 0.6, 2.0, weekend=(17.5, 0.6)),  # the car
        ),
    ),
    "night_worker": Profile(
        standby=0.11,
        watching=0.15,
        uses=(
            Use(15.4, 1.4, 0.24, weekend=(10.5, 1.0)),
            Use(16.2, 0.10, 7.5, 0.7, weekend=(11.2, 0.65)),
            Use(6.6, 2.2, 0.24, 0.95, 0.6, weekend=(12.0, 0.9)),  # home from work, before sleep
            Use(7.3, 0.5, 1.4, 0.7, weekend=(13.0, 0.6)),
            Use(17.5, 0.7, 1.6, 0.8, weekend=(19.0, 0.8)),
            Use(17.0, 3.6, 0.26, weekend=(18.0, 1.0)),
            Use(16.5, 1.0, 0.9, 0.35, 1.0),
            Use(20.3, 0.2, 1.8, 0.6),
        ),
    ),
    "solar": Profile(
        standby=0.15,
        watching=0.7,
        panels=(2.0, 4.0),
        uses=(
            Use(6.7, 1.5, 0.32, weekend=(8.0, 1.0)),
            Use(7.1, 0.12, 8.0, 0.8, weekend=(8.8, 0.8)),
            Use(9.2, 6.0, 0.16, 0.5, 1.0, weekend=(10.0, 0.85)),
            Use(12.6, 0.5, 1.4, 0.45, weekend=(12.8, 0.8)),
            Use(18.2, 0.8, 1.9, 0.9, 0.6),
            Use(17.2, 5.0, 0.34),
            Use(12.5, 1.2, 1.1, 0.6, 1.5),  # washing while the sun shines
            Use(13.5, 1.1, 1.0, 0.5, 1.5),
        ),
    ),
}
