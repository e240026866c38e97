"""Rows of a benchmark and the document they stand in: what was timed, beside what, when, where and by which command."""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import compvae
from compvae.bench.timing import Run, Timing, race

__all__ = ["Row", "Scope", "about", "document", "rows_of", "table"]


@dataclass(frozen=True)
class Scope:
    """How much is measured.  rounds: of every comparison.  quick: a little of everything, to see that all works."""

    rounds: int = 9
    quick: bool = False
    seed: int = 0

    @property
    def turns(self) -> int:
        """Rounds of a comparison."""
        return 2 if self.quick else self.rounds


@dataclass(frozen=True)
class Row:
    """One case.  beside: the case of the same comparison it is divided by.  counts: what is counted, not timed."""

    section: str
    case: str
    beside: str
    timing: Timing
    counts: Mapping[str, float] = field(default_factory=dict)


def rows_of(
    section: str, cases: Mapping[str, Run], beside: str, rounds: int,
    counts: Mapping[str, Mapping[str, float]] | None = None,
) -> list[Row]:  # fmt: skip
    """The rows of one comparison.  counts: by case."""
    found = race(cases, beside, rounds)
    return [Row(section, name, beside, timing, (counts or {}).get(name, {})) for name, timing in found.items()]


def about(command: str, scope: Scope) -> dict[str, Any]:
    """What makes the numbers worth something: date, machine, commit, command."""
    import torch

    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": _machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "version": compvae.__version__,
        "commit": _commit(),
        "command": command,
        "quick": scope.quick,
        "seed": scope.seed,
    }


def document(rows: list[Row], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Rows and facts as plain data."""
    return {**facts, "rows": [asdict(row) for row in rows]}


def table(rows: list[Row]) -> str:
    """One line for each case."""
    lines = [f"{'case':56} {'seconds':>10}  {'ratio':>8} {'quartiles':>19}  beside"]
    section = ""
    for row in rows:
        if row.section != section:
            section = row.section
            lines.append(section)
        ratio, seconds = row.timing.ratio, row.timing.seconds.median
        spread = f"{ratio.low:.4g} to {ratio.high:.4g}"
        counted = "".join(f"; {name} {value:,.6g}" for name, value in row.counts.items())
        lines.append(f"  {row.case:54} {seconds:10.3g}  {ratio.median:8.4g} {spread:>19}  {row.beside}{counted}")
    return "\n".join(lines)


def _machine() -> str:
    """Processor and number of cores."""
    cpu, memory = Path("/proc/cpuinfo"), platform.processor() or platform.machine()
    if cpu.exists():
        names = re.findall(r"^model name\s*: (.*)$", cpu.read_text(), re.MULTILINE)
        return f"{len(names)} cores of {names[0]}" if names else memory
    return memory


def _commit() -> str | None:
    """The commit of the checkout the package runs from, with a plus where files were changed; None for a wheel."""
    place = Path(compvae.__file__).parent

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", place, *words], capture_output=True, text=True, check=False)
        except OSError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit = git("rev-parse", "--short", "HEAD")
    if not commit or git("ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    return f"{commit}+" if git("status", "--porcelain", "--", str(place)) else commit
