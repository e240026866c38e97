"""Aggregate days of rampdemand's example village of 134 users: how long they take.  Run with its own venv's Python.

.peers/ramp/bin/python benchmarks/peers/ramp_village.py --days 20

The village is the package's first example: 11 + 38 + 34 + 45 homes, hospital, school, street lights, 3 churches.
Days are asked for one at a time: runs of many days in one call end in a RecursionError.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from typing import Any


def village() -> Any:
    """Its users as one use case of one day."""
    users = importlib.import_module("ramp.example.input_file_1").User_list
    use_case = importlib.import_module("ramp.core.core").UseCase(users=users, parallel_processing=False)
    use_case.initialize(num_days=1, peak_enlarge=0.15)
    return use_case


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=1000)
    args = parser.parse_args()
    use_case = village()
    users = sum(user.num_users for user in use_case.users)
    start, energy = time.process_time(), 0.0
    for _ in range(args.days):
        energy += float(sum(use_case.generate_daily_load_profiles(flat=True))) / 60_000  # W of each minute
    seconds = time.process_time() - start
    print(json.dumps({"users": users, "days": args.days, "seconds": seconds, "kwh_a_day": energy / args.days}))


if __name__ == "__main__":
    main()
