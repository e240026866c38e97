"""Peak memory of some work, by a process of its own; bytes that torch allocates for it; operations it counts.

The largest resident size of a process never falls, and a child inherits its parent's where ``ru_maxrss`` is asked; so
the work is done in a process started afresh, and Linux is asked for the size of that process alone.
"""

from __future__ import annotations

import multiprocessing
import re
import resource
import sys
from collections.abc import Callable
from pathlib import Path

__all__ = ["allocated", "operations", "peak"]


def peak(work: Callable[..., object], *arguments: object) -> float:
    """Megabytes a fresh process holds at most while it does the work.  work: a function of a module, on one thread."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_worked, (work, arguments))


def allocated(work: Callable[[], object]) -> int:
    """Bytes that torch asks for while it does the work, what is given back in between included."""
    from torch.profiler import ProfilerActivity, profile

    work()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        work()
    return sum(max(0, event.self_cpu_memory_usage) for event in seen.events())


def operations(work: Callable[[], object]) -> int:
    """Multiplications and additions in matrix products and convolutions, forward and backward."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        work()
    return int(counter.get_total_flops())


def _worked(work: Callable[..., object], arguments: tuple[object, ...]) -> float:
    import torch

    torch.set_num_threads(1)
    work(*arguments)
    return _largest()


def _largest() -> float:
    """Largest resident size of this process so far, megabytes."""
    status = Path("/proc/self/status")
    if status.exists():
        found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
        if found is not None:
            return int(found[1]) / 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 1024**2 if sys.platform == "darwin" else most / 1024
