"""Speed: 1,000 aggregate days of rampdemand's village of 134 users against 1,000 draws of ours; 10 against 10^6 homes.

python benchmarks/village.py households --ramp .peers/ramp/bin/python     # its own venv, see peers/install.sh
python benchmarks/village.py households                                   # ours alone

Same machine, same run, one thread each, the model loaded beforehand.  rampdemand takes --ramp-days days, and the time
of 1,000 is in proportion: each day is drawn on its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import compvae
from compvae.model import Model

PEER = Path(__file__).with_name("peers") / "ramp_village.py"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


def mixed(model: Model, homes: int) -> dict[str, int]:
    """So many homes, the categories in equal shares as far as they go."""
    names = model.parts.categories
    counts = [homes // len(names) + (i < homes % len(names)) for i in range(len(names))]
    return {name: count for name, count in zip(names, counts, strict=True) if count}


def seconds_of(model: Model, homes: int, n: int, repeats: int) -> np.ndarray:
    """Time of n draws, each repeat with its own seed, (repeats,)."""
    parts, found = mixed(model, homes), []
    for seed in range(repeats):
        start = time.perf_counter()
        model.sample(parts, n, seed)
        found.append(time.perf_counter() - start)
    return np.array(found)


def ramp(python: Path, days: int) -> dict[str, Any]:
    """What the peer says about its own run."""
    command = [str(python), str(PEER), "--days", str(days)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **ONE_THREAD})
    if done.returncode:
        raise SystemExit(f"rampdemand failed: {done.stderr.strip().splitlines()[-1:]}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a shipped name, a run or a model directory")
    parser.add_argument("--ramp", type=Path, help="Python of the venv that has rampdemand")
    parser.add_argument("--ramp-days", type=int, default=50)
    parser.add_argument("-n", type=int, default=1000, help="draws")
    parser.add_argument("--repeats", type=int, default=5, help="of which the median counts")
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = compvae.load(args.model)
    model.sample(mixed(model, 10), 10)  # what is done once is done
    found: dict[str, Any] = {"n": args.n}
    times = {homes: seconds_of(model, homes, args.n, args.repeats) for homes in (10, 134, 1_000_000)}
    found["seconds"] = {str(homes): [float(t.min()), float(np.median(t)), float(t.max())] for homes, t in times.items()}
    found["million_over_ten"] = float(np.median(times[1_000_000]) / np.median(times[10]))
    if args.ramp is not None:
        peer = ramp(args.ramp, args.ramp_days)
        a_day = peer["seconds"] / peer["days"]
        found["ramp"] = peer
        found["ramp_over_ours"] = a_day * args.n / float(np.median(times[134]))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
