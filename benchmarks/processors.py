"""How far the numbers of the shipped models differ between instruction sets and numbers of threads.

    python benchmarks/processors.py

Each setting is a process of its own, with the same seeds and the same observed wholes.  A row gives the largest
absolute difference of a quantity between any two settings: between the three instruction sets of torch's own kernels,
then between all settings.  Each is also given relative to the spread of x, that of the bound relative to the spread of
the bound over the 8 observed wholes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

import compvae

ATEN = {"default": {"ATEN_CPU_CAPABILITY": "default"}, "avx2": {"ATEN_CPU_CAPABILITY": "avx2"}, "native": {}}
OTHERS = {
    "MKL SSE4.2": {"MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
    "MKL AVX2": {"MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "oneDNN SSE4.1": {"ONEDNN_MAX_CPU_ISA": "SSE41"},
    "2 threads": {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"},  # no spinning beside other work
}
SITES = [
    {"colour": "red", "x": -0.5, "y": -0.4},
    {"colour": "green", "x": 0.6, "y": 0.1},
    {"colour": "blue", "x": 0.0, "y": 0.7},
]
HOMES = {"flat": 5, "family": 4, "heat_pump": 2, "solar": 1}
DAY = {"day_type": "workday", "temperature": 3.0}
# model: parts, context, the part that the edit removes
CASES: dict[str, tuple[object, dict[str, object] | None, object]] = {
    "sines": ({"3": 2, "7": 1}, None, {"7": 1}),
    "colours": (SITES, None, SITES[:1]),
    "households": (HOMES, DAY, {"heat_pump": 1}),
}
QUANTITIES = ("x", "mean of x", "deviation of x", "bound, nats", "edit")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="model", help=f"of {', '.join(CASES)}; all of them by default")
    parser.add_argument("-n", type=int, default=1000, help="wholes drawn for the moments")
    parser.add_argument("--worker", nargs=2, metavar=("MODEL", "DIRECTORY"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args.worker[0], Path(args.worker[1]), args.n)
        return
    print(
        "| model | quantity | spread | default, avx2, native | relative | all settings | relative | native bytes in |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for model in args.models or CASES:
        for row in rows(model, args.n):
            print(f"| `{model}` | {row} |", flush=True)


def rows(model: str, n: int) -> list[str]:
    """The rows of one model."""
    with tempfile.TemporaryDirectory() as name:
        observed = Path(name) / "observed.npy"
        parts, context, _ = CASES[model]
        np.save(observed, compvae.load(model).sample(parts, 8, seed=1, context=context))
        found = {setting: run(model, n, observed, setting) for setting in (ATEN | OTHERS)}
    table = []
    for quantity in QUANTITIES:
        values = {setting: result[quantity].astype(np.float64) for setting, result in found.items()}
        spread = float(found["native"]["bound, nats" if quantity == "bound, nats" else "x"].std())
        aten, everything = (largest([values[name] for name in names]) for names in (ATEN, values))
        same = [name for name in values if np.array_equal(values[name], values["native"]) and name != "native"]
        table.append(
            f"{quantity} | {spread:.3g} | {aten:.1e} | {aten / spread:.1e} | {everything:.1e} | "
            f"{everything / spread:.1e} | {', '.join(same) or 'none'}"
        )
    return table


def largest(arrays: list[np.ndarray]) -> float:
    """The largest difference of an element between any two arrays."""
    return float(np.ptp(np.stack(arrays), axis=0).max())


def run(model: str, n: int, observed: Path, setting: str) -> dict[str, np.ndarray]:
    """What a fresh process computes under a setting."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("ATEN_CPU", "MKL_", "ONEDNN_", "OMP_"))}
    environment = {**kept, "OMP_NUM_THREADS": "1", **(ATEN | OTHERS)[setting]}
    command = [sys.executable, __file__, "-n", str(n), "--worker", model, str(observed.parent)]
    subprocess.run(command, env=environment, check=True)
    with np.load(observed.parent / "found.npz") as file:
        return dict(file)


def work(model_name: str, directory: Path, n: int) -> None:
    """Compute and store the quantities of one model in this process."""
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    model, (parts, context, gone) = compvae.load(model_name), CASES[model_name]
    x, observed = model.sample(parts, n, context=context), np.load(directory / "observed.npy")
    bound = np.asarray(model.elbo(observed, parts, context).total)
    edit = model.infer(observed, parts, context).remove(gone).decode()
    double = x.astype(np.float64)
    values = (x, double.mean(0), double.std(0), bound, edit)
    np.savez(directory / "found.npz", **dict(zip(QUANTITIES, values, strict=True)))


if __name__ == "__main__":
    main()
