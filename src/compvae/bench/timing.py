"""ratio_r = t_r(case) / t_r(beside) in round r; what is told is the median over rounds and the quartiles.

Cases take turns, so that what else the machine does falls on all of them alike.  Time is the processor's, of this
process: on a shared machine the clock on the wall measures the others.
"""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Spread", "Timing", "quartiles", "race"]

Run = Callable[[], object]
SHORTEST = 0.01  # seconds: calls that take less are repeated within a round
TOLD = 5.0  # seconds after which it is told again how far a comparison is

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Spread:
    """A median and the quartiles around it."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Timing:
    """seconds: of one call.  ratio: to the case it was run beside, round by round."""

    seconds: Spread
    ratio: Spread
    rounds: int


def quartiles(values: Sequence[float]) -> Spread:
    """The median and the quartiles of one value or more."""
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, low, high)


def race(
    cases: Mapping[str, Run], beside: str, rounds: int, clock: Callable[[], float] = time.process_time
) -> dict[str, Timing]:
    """Time all cases in turn, so many rounds; ``beside`` names the one that the others are divided by."""
    calls = {name: _calls(run, clock) for name, run in cases.items()}  # this first call is not counted
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    started = told = time.monotonic()
    for done in range(1, rounds + 1):
        for name, run in cases.items():
            seconds[name].append(_seconds(run, calls[name], clock))
        now = time.monotonic()
        if done == 1 or now - told > TOLD:
            told, left = now, (now - started) * (rounds - done) / done
            log.info("%s and %d more: round %d of %d, %.0f s left", beside, len(cases) - 1, done, rounds, left)
    other = seconds[beside]
    return {
        name: Timing(quartiles(own), quartiles([a / b for a, b in zip(own, other, strict=True)]), rounds)
        for name, own in seconds.items()
    }


def _calls(run: Run, clock: Callable[[], float]) -> int:
    """How many calls make a round long enough for the clock."""
    once = _seconds(run, 1, clock)
    if once < SHORTEST:
        once = _seconds(run, 1, clock)  # the first call may have set things up
    return max(1, min(1000, round(SHORTEST / max(once, 1e-6))))


def _seconds(run: Run, calls: int, clock: Callable[[], float]) -> float:
    started = clock()
    for _ in range(calls):
        run()
    return max(clock() - started, 1e-9) / calls
