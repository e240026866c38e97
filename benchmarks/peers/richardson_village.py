"""A year of so many homes by richardsonpy, summed: how long they take.  Run with its own venv's Python.

.peers/richardson/bin/python benchmarks/peers/richardson_village.py --homes 3

The package draws a home for a year at a time, and no less.  Each home has its own occupants (1 to 5, in turn),
appliances and lights, minute by minute; all have one sky.  Radiation is that of a clear March day in a simple form: it
sets when lights go on.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time

import numpy as np

DAYS = 365


def village(homes: int) -> np.ndarray:
    """Load of all homes in W, each minute, (1440 DAYS,)."""
    occupancy = importlib.import_module("richardsonpy.classes.occupancy")
    load = importlib.import_module("richardsonpy.classes.electric_load")
    minute = np.tile(np.arange(1440), DAYS)
    sky = 400 * np.clip(np.sin((minute - 360) / 720 * np.pi), 0, None)  # W/m2, up from 6 to 18 o'clock
    total = np.zeros(1440 * DAYS)
    for home in range(homes):
        people = occupancy.Occupancy(number_occupants=1 + home % 5, nb_days=DAYS)
        one = load.ElectricLoad(
            occ_profile=people.occupancy, total_nb_occ=1 + home % 5, q_direct=sky, q_diffuse=sky / 2, timestep=60
        )
        total += one.loadcurve
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--homes", type=int, default=3)
    args = parser.parse_args()
    start = time.process_time()
    load = village(args.homes)
    seconds = time.process_time() - start
    energy = float(load.sum()) / 60_000 / DAYS
    print(json.dumps({"users": args.homes, "days": DAYS, "seconds": seconds, "kwh_a_day": energy}))


if __name__ == "__main__":
    main()
