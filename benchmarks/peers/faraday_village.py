"""Aggregate days of so many homes by Faraday, its draws summed: how long they take.  Run with its own venv's Python.

.peers/faraday/bin/python benchmarks/peers/faraday_village.py --homes 134 --days 1000

Faraday draws single homes: a day of a village is one draw for each home.  The VAE has its default widths and fresh
weights, the mixture over codes is fitted to random ones: how long a draw takes does not hang on what they learned.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import torch
from faraday import draw, mixture_of, parts_of_faraday

CODES, LABELS = 5000, 6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--homes", type=int, default=134)
    parser.add_argument("--days", type=int, default=1000)
    parser.add_argument("--components", type=int, default=50)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    vae = parts_of_faraday()[0](class_dim=1, input_dim=48).eval()
    x, label = torch.randn(CODES, 48), torch.randint(0, LABELS, (CODES, 1)).float()
    mixture = mixture_of(vae, x, label, args.components, 0)
    draw(vae, mixture, LABELS, args.homes)  # what is done once is done
    start = time.process_time()
    drawn, _ = draw(vae, mixture, LABELS, args.homes * args.days)
    seconds = time.process_time() - start
    whole = len(drawn) // args.homes * args.homes  # some draws have no allowed label
    load = np.asarray(drawn)[:whole].reshape(-1, args.homes, 48).sum(1)
    days = len(load)
    print(json.dumps({"users": args.homes, "days": days, "seconds": seconds}))


if __name__ == "__main__":
    main()
