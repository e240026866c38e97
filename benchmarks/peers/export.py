"""Days of training homes as Faraday takes them: x (n, T) kW and profile (n,), in an npz.  Run with our own Python.

python benchmarks/peers/export.py runs/feeder --out runs/singles.npz
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the benchmark it works for
from homes import opened


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run directory, trained on meters")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    singles = opened(args.run).singles()
    x, profile = np.concatenate(list(singles.values())), np.repeat(list(singles), [len(x) for x in singles.values()])
    np.savez(args.out, x=x, profile=profile)
    print(f"{len(x):,} days of training homes are in {args.out}")


if __name__ == "__main__":
    main()
