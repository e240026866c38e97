"""Real homes: a model against sums of independently drawn real profiles, and of independent draws of Faraday.

python benchmarks/homes.py runs/feeder                                    # as examples/feeder.py leaves it
python benchmarks/homes.py runs/feeder --faraday runs/faraday.npz         # see benchmarks/peers

What compvae evaluate measures on days, and in the second setting homes, that training has not seen, with Faraday as one
more forecaster.  Intervals are of 95%, by a bootstrap over homes and days.  difference: model less rival, in the
distance from perfect (of coverage from 0.9, of a ratio from 1 on a logarithmic scale); where its interval holds 0,
nobody has won, and no winner is named.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

import compvae
from compvae.evaluation import Comparison, Effort, Row, evaluate_own
from compvae.evaluation.unseen import sums_of
from compvae.problems.meters import MeterGroups
from compvae.train.runs import data_of

FARADAY = "Faraday, independent"


def opened(run: Path) -> MeterGroups:
    """The meters a run was trained on."""
    source = data_of(run)[-1]
    if not isinstance(source, MeterGroups):
        raise SystemExit(f"{run} is not a run of meters")
    return source


def read_faraday(path: Path, source: MeterGroups) -> dict[str, np.ndarray]:
    """What benchmarks/peers/faraday.py wrote: x (n, T) kW and profile (n,) texts."""
    with np.load(path, allow_pickle=False) as file:
        x, profile = file["x"].astype(np.float32), file["profile"]
    if x.ndim != 2 or x.shape[1:] != source.shape or set(source.profiles.names) - set(profile.tolist()):
        raise SystemExit(f"{path}: expected x (n, {source.shape[0]}) with draws of {', '.join(source.profiles.names)}")
    return {name: x[profile == name] for name in source.profiles.names}


def line(row: Row, gap: Comparison | None) -> str:
    """A row of the table; the difference where there is a rival."""
    said = ""
    if gap is not None:
        said = f"{gap.value:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})" + (" (0 inside)" if gap.verdict == "tie" else "")
    return f"| {row.name} | {row.K} | {row.of} | {row.value:.3f} | {row.low:.3f} to {row.high:.3f} | {said} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run directory, trained on meters that still are where they were")
    parser.add_argument("--faraday", type=Path, help="single homes drawn by Faraday (.npz)")
    parser.add_argument("--groups", type=int, default=200, help="real wholes of each setting")
    parser.add_argument("--draws", type=int, default=200, help="of each forecaster for each whole, 20 or more")
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--sizes", type=int, nargs="*", help="K; several if not given")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    source = opened(args.run)
    rivals = {} if args.faraday is None else {FARADAY: sums_of(read_faraday(args.faraday, source))}
    effort = Effort(args.groups, args.draws, args.resamples, tuple(args.sizes) if args.sizes else None)
    found = evaluate_own(compvae.load(args.run), source, effort, args.seed, rivals=rivals)
    if args.json:
        print(found.model_dump_json())
        return
    gaps = {(one.name, one.K, one.against): one for one in found.comparisons}
    print("| measure | K | of | value | 95% | model less this one (95%) |")
    print("|---" * 6 + "|")
    for row in sorted(found.measures, key=lambda row: ("unseen homes" in row.name, row.name, row.K)):
        print(line(row, gaps.get((row.name, row.K or 0, row.of))))


if __name__ == "__main__":
    main()
