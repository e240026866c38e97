"""Counts of what the server did, as Prometheus reads them (text format 0.0.4)."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import defaultdict

__all__ = ["Metrics"]

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds


class Metrics:
    """Requests by path and status, how long they took, what the workers do.  Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[tuple[str, int], int] = defaultdict(int)
        self._buckets: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = defaultdict(float)
        self._work: dict[str, float] = defaultdict(float)
        self._runs: dict[str, int] = defaultdict(int)
        self._jobs: dict[str, int] = defaultdict(int)
        self.active = 0

    def answered(self, path: str, status: int, seconds: float) -> None:
        """A request is done.  path: of a route, so that there are few of them."""
        with self._lock:
            self._requests[path, status] += 1
            self._seconds[path] += seconds
            counts = self._buckets.setdefault(path, [0] * (len(BUCKETS) + 1))
            counts[bisect_left(BUCKETS, seconds)] += 1

    def worked(self, lane: str, jobs: int, seconds: float) -> None:
        """A worker ran some jobs together."""
        with self._lock:
            self._runs[lane] += 1
            self._jobs[lane] += jobs
            self._work[lane] += seconds

    def text(self) -> str:
        """All of it."""
        with self._lock:
            lines = [
                *_head("compvae_requests_total", "counter", "Requests answered."),
                *(f'compvae_requests_total{{path="{p}",status="{s}"}} {n}' for (p, s), n in self._requests.items()),
                *_head("compvae_request_seconds", "histogram", "Time from request to answer."),
                *(line for path in self._buckets for line in self._histogram(path)),
                *_head("compvae_requests_active", "gauge", "Requests being answered."),
                f"compvae_requests_active {self.active}",
                *_labelled("compvae_jobs_total", "Jobs done by a worker.", self._jobs),
                *_labelled("compvae_runs_total", "Runs of a worker; one run serves several jobs.", self._runs),
                *_labelled("compvae_work_seconds_total", "Time a worker was busy.", self._work),
            ]
        return "\n".join(lines) + "\n"

    def _histogram(self, path: str) -> list[str]:
        lines, total = [], 0
        for bound, count in zip((*BUCKETS, "+Inf"), self._buckets[path], strict=True):
            total += count
            lines.append(f'compvae_request_seconds_bucket{{path="{path}",le="{bound}"}} {total}')
        return [
            *lines,
            f'compvae_request_seconds_sum{{path="{path}"}} {self._seconds[path]:.6f}',
            f'compvae_request_seconds_count{{path="{path}"}} {total}',
        ]


def _head(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]


def _labelled(name: str, text: str, values: dict[str, float] | dict[str, int]) -> list[str]:
    return [*_head(name, "counter", text), *(f'{name}{{lane="{lane}"}} {value:g}' for lane, value in values.items())]
