"""Real homes from end to end: fetch, train, sample, ask what if, look at peaks.

python examples/feeder.py                      # 17 homes of citylearn, fetched by pip when asked for, a few minutes
python examples/feeder.py --data my_directory  # own meters.csv, homes.csv and days.csv; nothing is fetched
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import compvae
from compvae.commands.data import data as fetch
from compvae.problems.meters import MeterGroups
from compvae.problems.own import own_data

FILES = ("meters.csv", "homes.csv", "days.csv")
LEVELS = (0.5, 0.95, 0.99)
DRAWS = 500


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--data", type=Path, help="directory with meters.csv, homes.csv and days.csv")
    arguments.add_argument("--out", type=Path, default=Path("runs/feeder"))
    arguments.add_argument("--steps", type=int, default=2000)
    arguments.add_argument("--seed", type=int, default=0)
    args = arguments.parse_args()
    try:
        feeder(args.data, args.out, args.steps, args.seed)
    except compvae.CompVAEError as error:
        raise SystemExit(f"feeder: {error}") from None


def feeder(directory: Path | None, out: Path, steps: int, seed: int, groups: int = 200) -> dict[str, np.ndarray]:
    """Returns what is shown: wholes by where they come from, the observed day by the model, and draws of it changed."""
    if directory is None:
        directory = out.with_name(f"{out.name}_data")
        if not (directory / "meters.csv").exists():
            fetch("citylearn", out=directory)
    meters, homes, days = (directory / name for name in FILES)

    # train on groups of homes of the same day; a fifth of the homes and of the days are never seen
    resume = (out / "config.json").exists()  # an example that was interrupted goes on
    run = compvae.fit(meters, profiles=homes, context=days, out=out, steps=steps, seed=seed, resume=resume, show=True)
    model, source = run.model, own_data(str(meters), str(homes), str(days)).open()
    assert isinstance(source, MeterGroups)

    # peaks of groups on held-out days: real ones, the model's, and homes added up as if they were independent
    size = min(10, source.max_parts)
    ask = {"n": groups, "size": size, "seed": seed, "homes": "all"}
    real, apart = source.held_out(**ask), source.held_out(**ask, together=False)
    drawn = np.concatenate([model.sample(parts, n=5, seed=i) for i, parts in enumerate(real.parts)])
    wholes = {"real": real.x, "model": drawn, "independent": apart.x}
    print(f"\npeak of {size} homes on held-out days, kW; variance of their mean load, in which shows what they share:")
    for name, x in wholes.items():
        row = "  ".join(f"P{100 * level:g} {np.quantile(x.max(1), level):6.2f}" for level in LEVELS)
        print(f"  {name:12} {row}   {x.mean(1).var():.3f}")

    # what if: the same homes on the same day, but one of the smallest profile were of the largest
    parts = real.parts[0]
    before, after = what_if(model, source, real.x[0], parts, real.context[0])
    change = after.mean(0) - before
    print(f"\nwhat if, on {real.dates[0]} with {parts}: the mean day changes by {change.mean():+.2f} kW, most at "
          f"{int(change.argmax()) * source.days.minutes / 60:g} h by {change.max():+.2f} kW")  # fmt: skip
    print(f"the model is in {out / 'model'}; try next:")
    print(f"  compvae report {out} --out {out}.html                 how good it is on the homes and days held out")
    print(f"  compvae plan {out} --parts {example(parts)} --out plan.html   peaks, ratings, what-if")
    return {**wholes, "before": before, "after": after}


def what_if(
    model: compvae.Model,
    source: MeterGroups,
    x: np.ndarray,
    parts: dict[str, int],
    context: dict[str, object] | None,
) -> tuple[np.ndarray, np.ndarray]:
    """The observed day as the model sees it, and draws of it with one home of the least profile made the greatest."""
    energy = source.mean_kwh()
    here = sorted((name for name, count in parts.items() if count), key=energy.__getitem__)
    smallest, largest = here[0], max(energy, key=energy.__getitem__)
    seen = model.infer(x, parts, context=context)
    return seen.decode(), seen.replace({smallest: 1}, {largest: 1}).decode(n=DRAWS, seed=1)


def example(parts: dict[str, int]) -> str:
    return ",".join(f"{name}:{count}" for name, count in parts.items() if count)


if __name__ == "__main__":
    main()
