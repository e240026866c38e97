"""The gallery by the package's defaults: train each problem, judge it against its truth, write the table.

python benchmarks/gallery_landed.py --work runs/gallery --json benchmarks/results/gallery_landed.json
python benchmarks/gallery_landed.py --work runs/gallery --only spectra queue      # goes on with the same file

Two ways to the same problem: ``directory`` is ``compvae train DIRECTORY`` on 20,000 wholes (Noise seed 1) with nothing
but its defaults; ``name`` is ``compvae.fit(NAME)``, which draws wholes without end, for as many steps as 3 minutes of
one core hold (by the seconds of a step of the directory's run: ``minutes=3`` is measured by the clock, which on a busy
machine gives too few).  One thread, seed 0.  What is there already, a data set, a run or a row of the file, is not made
again.  gallery/table.py says what is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import compvae
import gallery
from compvae.problems import Problem, get
from gallery.dataset import write_dataset
from gallery.table import EDIT_SIZES, Effort, judge, of_model, sizes_of

MINUTES, THREADS = 3, "1"


def by_directory(problem: Problem, work: Path, out: Path) -> None:
    """compvae train DIRECTORY --out, in a process of its own as a stranger would."""
    data = work / "data" / problem.name
    if not (data / "parts.csv").exists():
        write_dataset(problem, data)
    command = [sys.executable, "-m", "compvae", "train", str(data), "--out", str(out), "--seed", "0", "--quiet"]
    if (out / "config.json").exists():  # of a run that was stopped; what it then takes is the rest
        command.append("--resume")
    subprocess.run([*command, "--threads", THREADS], check=True, env={**os.environ, "OMP_NUM_THREADS": THREADS})


def by_name(problem: Problem, work: Path, out: Path) -> None:
    """compvae.fit(NAME) with the preset it takes by itself, for three minutes of one core."""
    other = trained(problem, "directory", work)
    each = took(other)["processor_seconds"] / run_of(other)["recipe"]["steps"]
    compvae.fit(problem.name, out=out, steps=int(60 * MINUTES / each), threads=int(THREADS))


WAYS: dict[str, Callable[[Problem, Path, Path], None]] = {"directory": by_directory, "name": by_name}


def processor_seconds() -> float:
    """Of this process and of those it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def run_of(out: Path) -> dict[str, Any]:
    """A run's configuration."""
    found: dict[str, Any] = json.loads((out / "config.json").read_text())["run"]
    return found


def took(out: Path) -> dict[str, float]:
    """What a run took."""
    found: dict[str, float] = json.loads(out.with_suffix(".took.json").read_text())
    return found


def trained(problem: Problem, way: str, work: Path) -> Path:
    """The run, and beside it what it took."""
    out = work / f"{problem.name}-{way}"
    if not (out / "model").is_dir():
        before, started = processor_seconds(), time.perf_counter()
        WAYS[way](problem, work, out)
        spent = {"processor_seconds": processor_seconds() - before, "seconds": time.perf_counter() - started}
        out.with_suffix(".took.json").write_text(json.dumps(spent))
    return out


def row_of(problem: Problem, way: str, work: Path, effort: Effort) -> dict[str, Any]:
    """A run and all its numbers."""
    out = trained(problem, way, work)
    run, (sample, remove) = run_of(out), of_model(compvae.load(out))
    about = {"problem": problem.name, "of": way, "preset": run["preset"], "steps": run["recipe"]["steps"], **took(out)}
    return {**about, **judge(problem, sample, remove, effort)}


def table(rows: list[dict[str, Any]]) -> str:
    """Rows as Markdown: relED at K = 1, 2, middle, largest, twice the largest, and what is beside it."""
    lines = [
        "| problem, trained by | relED at K | floor | edit K = 2 3 4 5 | largest, worst K | energy score, exact | s |"
    ]
    lines.append("|---" * 7 + "|")
    for row in rows:
        sizes = [str(size) for size in sizes_of(get(row["problem"]))]
        distances = [f"{row['relED'][size]['value']:.3g} (K={size})" for size in sizes]
        floors = [row["relED"][size]["floor"] for size in sizes]
        edits = [f"{row['edit'][str(k)]['value']:.2f}" for k in EDIT_SIZES if str(k) in row["edit"]]
        worst = max(row["largest"], key=lambda k: float(row["largest"][k]))
        lines.append(
            f"| `{row['problem']}`, {row['of']} | {', '.join(distances)} | {min(floors):.1g} to {max(floors):.1g} | "
            f"{' '.join(edits)} | {row['largest'][worst]:.3g} (K={worst}) | "
            f"{row['energy']['value']:.4g}, {row['energy']['exact']:.4g} | {row['processor_seconds']:.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("runs/gallery"), help="data sets and runs")
    parser.add_argument("--json", type=Path, help="the rows; WORK/rows.json if not given")
    parser.add_argument("--only", nargs="*", default=[one.name for one in gallery.GALLERY])
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=list(WAYS))
    args = parser.parse_args()
    torch.set_num_threads(int(THREADS))
    path: Path = args.json or args.work / "rows.json"
    args.work.mkdir(parents=True, exist_ok=True)
    kept = json.loads(path.read_text())["rows"] if path.exists() else []
    for way in args.ways:
        for name in args.only:
            if any((row["problem"], row["of"]) == (name, way) for row in kept):
                continue
            row = row_of(get(name), way, args.work, Effort())
            kept.append(json.loads(json.dumps(row)))  # keys become texts
            about = {"version": compvae.__version__, "processor": platform.processor(), "torch": torch.__version__}
            path.write_text(json.dumps({**about, "rows": kept}, indent=1) + "\n")
            print(table(kept[-1:]), flush=True)
    order = [one.name for one in gallery.GALLERY]
    print(table(sorted(kept, key=lambda row: (row["of"], order.index(row["problem"])))))


if __name__ == "__main__":
    main()
