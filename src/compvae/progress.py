"""How far a long job is, on stderr: rows done, rows a second, time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TextIO

import numpy as np

__all__ = ["duration", "watched"]

SECONDS_BETWEEN = 0.5


def watched(
    chunks: Iterable[np.ndarray],
    total: int,
    asked: bool = False,
    stream: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[np.ndarray]:
    """The same chunks; how far they are is told on a terminal, or where it was asked for.

    chunks: (m, *shape) each, ``total`` rows in all.  stream: stderr.
    """
    stream = stream or sys.stderr
    if not asked and not stream.isatty():
        yield from chunks
        return
    start = told = clock()
    done, shown = 0, False
    for chunk in chunks:
        yield chunk
        done += len(chunk)
        now = clock()
        if now - told >= SECONDS_BETWEEN or (done == total and shown):
            told, shown = now, True
            _tell(stream, done, total, now - start)
    if shown and stream.isatty():
        stream.write("\n")


def _tell(stream: TextIO, done: int, total: int, seconds: float) -> None:
    rate = done / max(seconds, 1e-9)
    left = duration((total - done) / rate)
    line = f"{done:,} of {total:,} ({100 * done / total:.0f}%), {rate:,.0f} a second, {left} left"
    stream.write(f"\r{line:<70}" if stream.isatty() else f"{line}\n")
    stream.flush()


def duration(seconds: float) -> str:
    """Hours, minutes and seconds: 1:02:03 or 2:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
