"""Start-up: ``compvae --help`` and ``import compvae`` beside ``python -c pass`` and ``import torch``.

Each case is a process of its own; time is the processor's of that child, user and system.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable

from compvae.bench.rows import Row, Scope
from compvae.bench.timing import race

__all__ = ["startup"]

SECTION, PASS = "start-up", "python -c pass"
CASES = {
    PASS: ["-c", "pass"],
    "import compvae": ["-c", "import compvae"],
    "compvae --help": ["-m", "compvae", "--help"],
    "import torch": ["-c", "import torch"],
    "compvae.load('sines')": ["-c", "import compvae; compvae.load('sines')"],
}


def startup(scope: Scope) -> list[Row]:
    """All of them, in turn."""
    found = race({name: _child(words) for name, words in CASES.items()}, PASS, scope.turns, _children)
    base = found[PASS].seconds.median
    return [
        Row(SECTION, name, PASS, timing, {"seconds more": timing.seconds.median - base})
        for name, timing in found.items()
    ]


def _children() -> float:
    """Processor time of all children that have ended, seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _child(words: list[str]) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, *words], capture_output=True, check=True)
