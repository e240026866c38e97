"""What a request may ask for, and for how long: every cap of the server in one place."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Limits"]


@dataclass(frozen=True)
class Limits:
    """Caps that keep every answer within seconds and megabytes, whoever asks.

    body_bytes: of a request.  seconds: a request, from its first byte to the last of its answer.
    connections: requests at once.  queue: jobs that wait in a lane.
    window: seconds in which small jobs gather.  joined: how many of them are run together.
    parts: K.  placed: K, where parts are seen one by one.  runs: entries of a composition.
    n: wholes of an answer.  tail_n: the same of a tail.  values: n times the size of x.
    work: K n size, where parts are seen one by one.  edits: steps of a request.  quantile: of a tail.
    """

    body_bytes: int = 2**20
    seconds: float = 10.0
    connections: int = 256
    queue: int = 64
    window: float = 0.002
    joined: int = 8
    parts: int = 1_000_000
    placed: int = 64
    runs: int = 1000
    n: int = 1000
    tail_n: int = 200
    values: int = 2_000_000
    work: int = 50_000_000
    edits: int = 64
    quantile: float = 0.9999
