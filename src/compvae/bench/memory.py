"""Peak memory of some work, by a process of its own; bytes that torch allocates for it.

The largest resident size of a process never falls, and a child inherits its parent's where ``ru_maxrss`` is asked; so
the work is done in a process started afresh, and Linux is asked for the size of that process alone.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable

from compvae.train.needs import largest_resident

__all__ = ["allocated", "peak"]


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


def _worked(work: Callable[..., object], arguments: tuple[object, ...]) -> float:
    import torch

    torch.set_num_threads(1)
    work(*arguments)
    return largest_resident()
