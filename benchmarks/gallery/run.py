"""The gallery's table: auto, every preset that suits, the Gaussian, the flow on the counts, equal minutes each.

python -m gallery.run --minutes 3 --json benchmarks/results/gallery.json           (from benchmarks/; hours)
python -m gallery.run --problems chords,dice --models auto,flow --seeds 0          (some of it)
python -m gallery.run --table --json results/gallery.json                          (what is there, as a table)

Results are added to the JSON row by row; rows that are there already are not made again.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import compvae
import gallery
from compvae.errors import DivergenceError
from compvae.model import Model
from compvae.noise import Noise
from compvae.presets import presets_of
from compvae.problems import Problem
from compvae.transport.starting import FITTED_ROWS
from compvae.verdict.yardsticks import counts_flow, moment_gaussian
from gallery.table import Editor, Effort, Sampler, judge, of_model

PROBLEMS = ("spectra", "chords", "queue", "dice", "appliances", "heat", "balls")
FITTED = 4711  # seed of what yardsticks are fitted to

Made = tuple[Sampler, Editor | None, dict[str, Any]]


def trained(problem: Problem, preset: str, minutes: float, seed: int) -> Made:
    """A preset by its name, trained as a user would."""
    with tempfile.TemporaryDirectory() as out:
        run = compvae.fit(problem.name, preset=preset, out=Path(out) / "run", minutes=minutes, seed=seed, threads=1)
        notes = {name: _read(run.directory / f"{name}.json") for name in ("choice", "verdict")}
    return (*of_model(run.model), {"preset": run.model.provenance.notes.get("preset"), **notes})


def yardstick(problem: Problem, name: str, minutes: float, seed: int) -> Made:
    """The Gaussian, or the flow on the counts."""
    wholes = problem.draw(problem.max_parts, Noise(FITTED + seed, FITTED_ROWS))
    if name == "gaussian":
        network = moment_gaussian(problem, wholes, seed)
    else:
        network = counts_flow(problem, wholes, seed, 60 * minutes, None)
    return of_model(Model(network))[0], None, {}


def _read(path: Path) -> Any:
    return json.loads(path.read_text()) if path.exists() else None


def makers(problem: Problem, names: list[str]) -> dict[str, Callable[[float, int], Made]]:
    """Models by name, each a function of minutes and seed."""
    known: dict[str, Callable[[float, int], Made]] = {}
    for preset in ("auto", *(name for name in presets_of(problem) if name != "paper")):
        known[preset] = lambda minutes, seed, preset=preset: trained(problem, preset, minutes, seed)  # type: ignore[misc]
    known["gaussian"] = lambda minutes, seed: yardstick(problem, "gaussian", minutes, seed)
    known["flow"] = lambda minutes, seed: yardstick(problem, "flow", minutes, seed)
    return {name: maker for name, maker in known.items() if not names or name in names}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--models", default="", help="auto, presets, gaussian, flow; all that suit if not given")
    parser.add_argument("--seeds", default="0,1,2", help="of auto; the others have the first alone")
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--json", type=Path, default=Path("results/gallery.json"))
    parser.add_argument("--table", action="store_true", help="print what the JSON holds, make nothing")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = json.loads(args.json.read_text())["rows"] if args.json.exists() else []
    if args.table:
        print(table(rows))
        return
    there = {(row["problem"], row["of"], row["seed"]) for row in rows}
    seeds = [int(seed) for seed in args.seeds.split(",")]
    for name in args.problems.split(","):
        problem = compvae.problems.get(name)
        assert isinstance(problem, Problem)
        for model, make in makers(problem, [m for m in args.models.split(",") if m]).items():
            for seed in seeds if model == "auto" else seeds[:1]:
                if (name, model, seed) in there:
                    continue
                started, used = time.perf_counter(), time.process_time()
                try:
                    sample, remove, notes = make(args.minutes, seed)
                except DivergenceError as error:  # that a preset does not suit is a result too; it is not stored
                    print(f"{name} {model} seed {seed}: {error}", flush=True)
                    continue
                took = {"seconds": time.perf_counter() - started, "processor_seconds": time.process_time() - used}
                found = judge(problem, sample, remove, Effort())
                rows.append({"problem": name, "of": model, "seed": seed, **took, **notes, **found})
                args.json.write_text(json.dumps({"version": compvae.__version__, "rows": rows}, indent=1) + "\n")
                print(line(rows[-1]), flush=True)


def table(rows: list[dict[str, Any]]) -> str:
    """All rows as a table, problem by problem."""
    head = "| problem | of, seed | relED at K = | edit ratio | energy score (exact draws) | largest over the data's |"
    lines = [head, "|---|---|---|---|---|---|"]

    def place(row: dict[str, Any]) -> tuple[int, bool, str, int]:
        return PROBLEMS.index(row["problem"]), row["of"] != "auto", row["of"], row["seed"]

    for row in sorted(rows, key=place):
        name = f"**auto** ({row['preset']})" if row["of"] == "auto" else row["of"]
        distances = " ".join(f"{found['value']:.4f}" for found in row["relED"].values())
        edits = " ".join(f"{found['value']:.3f}" for found in row.get("edit", {}).values())
        score = f"{row['energy']['value']:.4f} ({row['energy']['exact']:.4f})"
        cells = [f"`{row['problem']}`", f"{name}, {row['seed']}", f"{', '.join(row['relED'])}: {distances}"]
        lines.append(f"| {' | '.join([*cells, edits, score, format(max(row['largest'].values()), '.2f')])} |")
    return "\n".join(lines)


def line(row: dict[str, Any]) -> str:
    """One row for people."""
    distances = " ".join(f"K={size} {found['value']:.4f}" for size, found in row["relED"].items())
    edits = " ".join(f"{found['value']:.3f}" for found in row.get("edit", {}).values())
    energy = row["energy"]
    score = f"{energy['value']:.4f} (exact {energy['exact']:.4f})"
    outliers = max(row["largest"].values())
    return (
        f"{row['problem']} {row['of']} seed {row['seed']} ({row['processor_seconds']:.0f} s): relED {distances}; edits "
        f"{edits}; energy {score}; largest {outliers:.2f}"
    )


if __name__ == "__main__":
    assert gallery.__file__
    main()
