"""Speed: 1,000 aggregate days of a village of 134 homes, by peers and by ours; 10 against 10^6 homes.

python benchmarks/village.py households --peers .peers     # their own venvs, see peers/install.sh
python benchmarks/village.py households                    # ours alone

Same machine, same run, one thread each, processor time, the model loaded beforehand.  rampdemand takes 20
days of its village, richardsonpy a year of 3 homes; the time of 1,000 days of 134 homes is in proportion, since both
draw home by home and day by day.
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
from compvae.bench.sampling import shared_out
from compvae.model import Model

HERE = Path(__file__).with_name("peers")
HOMES, MANY, FEW = 134, 1_000_000, 10
PEERS: dict[str, list[str]] = {
    "ramp": ["ramp_village.py", "--days", "20"],
    "richardson": ["richardson_village.py", "--homes", "3"],
    "faraday": ["faraday_village.py", "--homes", str(HOMES), "--days", "1000"],
}
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


def seconds_of(model: Model, homes: int, n: int, repeats: int) -> np.ndarray:
    """Time of n draws, each repeat with its own seed, (repeats,)."""
    parts, found = shared_out(model, homes), []
    for seed in range(repeats):
        start = time.process_time()
        model.sample(parts, n, seed)
        found.append(time.process_time() - start)
    return np.array(found)


def peer(place: Path, name: str) -> dict[str, Any]:
    """What a peer says about its own run."""
    script, *options = PEERS[name]
    command = [str(place / name / "bin" / "python"), str(HERE / script), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **ONE_THREAD})
    if done.returncode:
        raise SystemExit(f"{name} failed: {done.stderr.strip().splitlines()[-1:]}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a shipped name, a run or a model directory")
    parser.add_argument("--peers", type=Path, help="directory of the peers' venvs")
    parser.add_argument("--only", default=",".join(PEERS), help="peers, separated by commas")
    parser.add_argument("-n", type=int, default=1000, help="draws")
    parser.add_argument("--repeats", type=int, default=5, help="of which the median counts")
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = compvae.load(args.model)
    model.sample(shared_out(model, FEW), 10)  # what is done once is done
    found: dict[str, Any] = {"n": args.n}
    times = {homes: seconds_of(model, homes, args.n, args.repeats) for homes in (FEW, HOMES, MANY)}
    found["seconds"] = {str(homes): [float(t.min()), float(np.median(t)), float(t.max())] for homes, t in times.items()}
    found["million_over_ten"] = float(np.median(times[MANY]) / np.median(times[FEW]))
    for name in args.only.split(",") if args.peers is not None else []:
        other = peer(args.peers, name)
        each = other["seconds"] / other["days"] / other["users"]  # of a home and day
        found[name] = {**other, "over_ours": each * HOMES * args.n / float(np.median(times[HOMES]))}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
