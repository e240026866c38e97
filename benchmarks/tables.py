"""A saved evaluation as tables for the docs: the paper's claims, and the model against its baselines.

compvae evaluate sines --against all --minutes 4 --json > benchmarks/results/sines.json
python benchmarks/tables.py benchmarks/results/sines.json
"""

from __future__ import annotations

import argparse
from pathlib import Path

from compvae import problems
from compvae.evaluation import Evaluation, read_evaluation
from compvae.report.claims import claims
from compvae.report.measures import Cell, versus


def claims_table(found: Evaluation, beside: Evaluation | None = None) -> list[str]:
    """The claims, by the rules; with another evaluation of the same problem, both models side by side."""
    problem, others = problems.get(str(found.about["problem"])), () if beside is None else (beside,)
    judged = [claims(one.measures, problem) for one in (found, *others)]
    names = [f" {one.about.get('model', 'measured here')} | verdict |" for one in (found, *others)]
    lines = [f"| claim | evidence in the paper |{''.join(names)}", "|---|---|" + "---|---|" * len(judged)]
    for same in zip(*judged, strict=True):
        said = "".join(f" {one.ours} | {one.verdict} |" for one in same)
        lines.append(f"| {same[0].claim} | {same[0].paper} |{said}")
    return lines


def baselines_table(found: Evaluation) -> list[str]:
    """Each measure with its floor, the model, and the baselines with our verdict against them."""
    compared = versus(found)
    if not compared:
        return []
    sizes = list(compared[0].cells)
    lines = [
        f"| measure | of | {' | '.join(f'K = {size}' for size in sizes)} |",
        "|---|---" + "|---" * len(sizes) + "|",
    ]
    for line in compared:
        cells = line.cells.values()
        if line.of == "model":
            floors = ["" if c is None or c.row.floor is None else f"{c.row.floor:.4f}" for c in cells]
            lines.append(f"| {line.name} | floor | {' | '.join(floors)} |")
        lines.append(f"| {line.name} | {line.of} | {' | '.join(text_of(cell) for cell in cells)} |")
    return lines


def text_of(cell: Cell | None) -> str:
    return "" if cell is None or cell.row.value is None else f"{cell.row.value:.4f} {cell.verdict}".rstrip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("evaluation", type=Path)
    parser.add_argument("--beside", type=Path, help="an evaluation of another model of the same problem")
    args = parser.parse_args()
    found, beside = read_evaluation(args.evaluation), args.beside and read_evaluation(args.beside)
    print("\n".join([*claims_table(found, beside), "", *baselines_table(found)]))


if __name__ == "__main__":
    main()
