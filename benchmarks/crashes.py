"""Break runs off in every way and compare what is left, and where it leads, with the uninterrupted run.

    python benchmarks/crashes.py kill --times 200       # kill -9 at random moments, as many as possible during a save
    python benchmarks/crashes.py terminate --times 20   # SIGTERM at random moments
    python benchmarks/crashes.py resume --times 20      # interrupted after a random step, one process
    python benchmarks/crashes.py resume --times 20 --devices 2

Runs of one process are forked from this one, so that torch is imported once.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from compvae.train.checkpoint import Checkpoints, read
from compvae.train.observers import read_metrics
from compvae.train.runs import train_run

OPTIONS: dict[str, Any] = {
    "problem": "sines",
    "batch": 8,
    "threads": 1,
    "check_every": 30,
    "held_out": 8,
    "log_every": 10,
}


def fork(work: Any) -> int:
    """Run ``work`` in a child; its exit code is what it returns."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(work())
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(99)
    return child


def go_on(out: Path, options: dict[str, Any]) -> int:
    """Start the run, or resume it; 128 + signal where one stopped it."""
    started = bool(Checkpoints(out / "checkpoints").paths())
    outcome = train_run({} if started else options, out, resume=started)
    return 128 + outcome.stopped if outcome.stopped else 0


def state_of(out: Path) -> tuple[dict[str, torch.Tensor], list[dict[str, Any]]]:
    lines = [{k: v for k, v in line.items() if k != "seconds"} for line in read_metrics(out / "metrics.jsonl")]
    return Checkpoints(out / "checkpoints").newest()[1], lines


def equal(a: Path, b: Path) -> bool:
    (tensors, lines), (others, other_lines) = state_of(a), state_of(b)
    same = tensors.keys() == others.keys() and all(torch.equal(tensors[name], others[name]) for name in tensors)
    return same and lines == other_lines


def unfinished(out: Path) -> list[Path]:
    """Temporary files: saves that are under way, or were when the run was killed."""
    return [path for path in (out / "checkpoints").iterdir() if path.name.startswith(".")]


def kill(times: int, place: Path) -> None:
    """One long run, killed again and again: at random moments, and every other time as soon as a save is seen."""
    options = {**OPTIONS, "steps": 10**6, "checkpoint_every": 1}
    dice, out, unreadable, lost, saving = random.Random(0), place / "run", 0, 0, 0
    for index in range(times):
        before = [path.name for path in Checkpoints(out / "checkpoints").paths()]
        child = fork(lambda: go_on(out, options))
        while not [p for p in Checkpoints(out / "checkpoints").paths() if p.name not in before]:
            time.sleep(0.005)
        time.sleep(dice.uniform(0.0, 0.4))
        while index % 2 and not unfinished(out):
            time.sleep(0.0005)
        seen = {path.name for path in Checkpoints(out / "checkpoints").paths()}
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        torn = unfinished(out)
        saving += bool(torn)
        for path in torn:
            path.unlink()
        for path in Checkpoints(out / "checkpoints").paths():
            try:
                read(path)
            except Exception as error:
                unreadable += 1
                print(error, flush=True)
        newest = Checkpoints(out / "checkpoints").newest()[2].step
        lost += newest < max(int(name.split("-")[1].split(".")[0]) for name in seen)
    found = f"{saving} of them during a save, {unreadable} unreadable checkpoints, {lost} completed saves lost"
    print(f"{times} kills, {found}")


def terminate(times: int, place: Path) -> None:
    options = {**OPTIONS, "steps": 300, "checkpoint_every": 50}
    os.waitpid(fork(lambda: go_on(place / "whole", options)), 0)
    dice, good = random.Random(1), 0
    for index in range(times):
        out = place / f"run-{index}"
        child = fork(lambda out=out: go_on(out, options))
        while not Checkpoints(out / "checkpoints").paths():
            time.sleep(0.01)
        time.sleep(dice.uniform(0.05, 1.5))
        os.kill(child, signal.SIGTERM)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        step = Checkpoints(out / "checkpoints").newest()[2].step
        again = os.waitstatus_to_exitcode(os.waitpid(fork(lambda out=out: go_on(out, options)), 0)[1])
        fine = code == 143 and again == 0 and equal(out, place / "whole")
        good += fine
        if not fine:
            print(f"run {index}: exit {code} at step {step}, resumed with exit {again}", flush=True)
    print(f"{times} times SIGTERM: {good} ended with exit 143, saved, and resumed to the same bytes and metrics")


def resume(times: int, place: Path, devices: int) -> None:
    """Stop after a random step by a copy of the run with fewer steps to go: delete later checkpoints, then resume."""
    flags = [
        "--batch",
        "8",
        "--threads",
        "1",
        "--quiet",
        "--steps",
        "60",
        "--checkpoint-every",
        "1",
        "--devices",
        str(devices),
    ]
    base = [sys.executable, "-m", "compvae", "train"]
    options = [*base, "sines", *flags, "--config", str(place / "keep.toml"), "--out", str(place / "whole")]
    (place / "keep.toml").write_text("keep = 1000\nlog_every = 10\n")
    subprocess.run(options, check=True, capture_output=True)
    dice, good = random.Random(2), 0
    for index in range(times):
        step, out = dice.randrange(1, 60), place / f"run-{index}"
        subprocess.run(["cp", "-r", str(place / "whole"), str(out)], check=True)
        for path in (out / "checkpoints").iterdir():
            if path.name == "best.safetensors" or int(path.name.split("-")[1].split(".")[0]) > step:
                path.unlink()
        subprocess.run([*base, "--resume", "--quiet", "--out", str(out)], check=True, capture_output=True)
        good += equal(out, place / "whole")
    print(f"{times} runs of {devices} processes resumed at random steps: {good} equal the uninterrupted one bitwise")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("how", choices=["kill", "terminate", "resume"])
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--devices", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        if args.how == "kill":
            kill(args.times, Path(name))
        elif args.how == "terminate":
            terminate(args.times, Path(name))
        else:
            resume(args.times, Path(name), args.devices)


if __name__ == "__main__":
    main()
