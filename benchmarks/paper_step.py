"""A training step of the `paper` 1D preset, graph posterior, K mixed in 1..16: time, peak memory, where the time goes.

python benchmarks/paper_step.py --batch 64 --steps 3
"""

from __future__ import annotations

import argparse
import resource
import time

import torch
from torch.profiler import ProfilerActivity, profile

from compvae.train.loop import Trainer
from compvae.train.settings import resolve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    trainer = Trainer(resolve({"problem": "sines", "preset": "paper", "batch": args.batch}))
    trainer.state.step = 100_000  # the curriculum is over: K <= 16
    trainer.advance()
    times = []
    for _ in range(args.steps):
        started = time.perf_counter()
        trainer.advance()
        times.append(time.perf_counter() - started)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    parameters = sum(p.numel() for p in trainer.model.parameters())
    seconds = sorted(times)[len(times) // 2]
    print(
        f"{parameters / 1e6:.0f}M parameters, batch {args.batch}: {seconds:.2f} s a step, peak {peak:.2f} GiB",
        flush=True,
    )
    with profile(activities=[ProfilerActivity.CPU]) as found:
        trainer.advance()
    rows = sorted(found.key_averages(), key=lambda row: -row.self_cpu_time_total)
    total = sum(row.self_cpu_time_total for row in rows)
    for row in rows[:6]:
        print(f"  {row.key:36s} {row.self_cpu_time_total / total:6.1%} in {row.count} calls")


if __name__ == "__main__":
    main()
