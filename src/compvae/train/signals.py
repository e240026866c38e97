"""SIGINT and SIGTERM inside a block of code: handed to a function, or noted to look at between steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

__all__ = ["Signals", "handled"]

WATCHED = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Inside, the two signals call the handler; outside, all is as before.  Outside of the main thread: no effect."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, handler) for number in WATCHED}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old or signal.SIG_DFL)  # None: it was not set from Python


class Signals:
    """Inside the context, the two signals only leave their number in ``number``, so that a run ends saved."""

    def __init__(self) -> None:
        self.number = 0
        self._handled = handled(self._note)

    def __enter__(self) -> Signals:
        self._handled.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._handled.__exit__(kind, error, at)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = number
