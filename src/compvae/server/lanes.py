"""Lanes: jobs wait in a bounded queue for one thread each; small jobs that come together are run together.

Slow work (tails) has a lane of its own, so that nobody waits behind it.  A job's answer does not hang on the jobs it is
run with: see :mod:`compvae.server.joining`.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from compvae.server.faults import BusyError, TooSlowError
from compvae.server.limits import Limits
from compvae.server.metrics import Metrics

__all__ = ["Job", "Lane"]

ENDING = 60.0  # seconds for the work in hand: one tile of it, since nobody waits for more


@dataclass(frozen=True)
class Job:
    """Something to do.  run: alone.  deadline: on time.monotonic's clock.

    abandoned: set when nobody waits for it any longer; long work looks at it.
    group: jobs of one group may be run together; None for none.  detail: what is needed for that.
    """

    run: Callable[[], Any]
    deadline: float
    abandoned: threading.Event
    group: object = None
    detail: Any = None


class _Waiting:
    """A job and who waits for it."""

    def __init__(self, job: Job, loop: asyncio.AbstractEventLoop) -> None:
        self.job, self.loop = job, loop
        self.future: asyncio.Future[Any] = loop.create_future()

    def tell(self, outcome: Any) -> None:
        """From the lane's thread: a value, or the exception it ended with."""
        with contextlib.suppress(RuntimeError):  # the server has ended meanwhile, and its loop with it
            self.loop.call_soon_threadsafe(self._set, outcome)

    def _set(self, outcome: Any) -> None:
        if self.future.done():  # nobody waits any longer
            return
        if isinstance(outcome, BaseException):
            self.future.set_exception(outcome)
        else:
            self.future.set_result(outcome)


class Lane:
    """One thread.  together: runs jobs of one group, answers in their order; None where jobs are run one by one."""

    def __init__(
        self, name: str, limits: Limits, metrics: Metrics,
        together: Callable[[Sequence[Job]], Sequence[Any]] | None = None,
    ) -> None:  # fmt: skip
        self.name, self.limits, self.metrics, self.together = name, limits, metrics, together
        self._queue: queue.Queue[_Waiting | None] = queue.Queue(maxsize=limits.queue)
        self._thread = threading.Thread(target=self._work, name=f"compvae-{name}", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def stop(self) -> None:
        """Answer what waits, then end.

        The work in hand is waited for: a daemon thread inside torch while Python takes itself down may, we guess, abort
        the process.
        """
        self._queue.put(None)
        self._thread.join(timeout=max(self.limits.seconds, ENDING))

    async def do(self, job: Job) -> Any:
        """Wait for a job; :class:`BusyError` at once where too many wait already."""
        waiting = _Waiting(job, asyncio.get_running_loop())
        try:
            self._queue.put_nowait(waiting)
        except queue.Full:
            raise BusyError("the server is busy; try again in a moment") from None
        try:
            return await waiting.future
        except asyncio.CancelledError:
            job.abandoned.set()
            raise

    def _work(self) -> None:
        ended = False
        while not ended:
            batch, ended = self._collect()
            batch = [one for one in batch if not one.job.abandoned.is_set()]
            started = time.perf_counter()
            for group in _grouped(batch):
                self._run(group)
            if batch:
                self.metrics.worked(self.name, len(batch), time.perf_counter() - started)

    def _collect(self) -> tuple[list[_Waiting], bool]:
        """The jobs that come within a few milliseconds, and whether this is the end."""
        first = self._queue.get()
        if first is None:
            return [], True
        batch, until = [first], time.perf_counter() + self.limits.window
        # nobody else is there to wait for where all requests are in hand
        while self.together is not None and len(batch) < min(self.limits.joined, self.metrics.active):
            try:
                more = self._queue.get(timeout=max(0.0, until - time.perf_counter()))
            except queue.Empty:
                break
            if more is None:
                return batch, True
            batch.append(more)
        return batch, False

    def _run(self, group: list[_Waiting]) -> None:
        jobs = [one.job for one in group]
        try:
            if any(time.monotonic() > job.deadline for job in jobs):
                raise TooSlowError("the server was too busy to answer in time; try again in a moment")
            if self.together is not None and jobs[0].group is not None:
                outcomes = self.together(jobs)
            else:
                outcomes = [jobs[0].run()]
        except Exception as error:  # whoever waits shall hear of it, whatever it is
            for one in group:
                one.tell(error)
            return
        for one, outcome in zip(group, outcomes, strict=True):
            one.tell(outcome)


def _grouped(batch: Sequence[_Waiting]) -> list[list[_Waiting]]:
    """Jobs that can be run together side by side, all others alone, in the order of their coming."""
    groups: dict[object, list[_Waiting]] = {}
    for index, one in enumerate(batch):
        key = ("alone", index) if one.job.group is None else ("group", one.job.group)
        groups.setdefault(key, []).append(one)
    return list(groups.values())
