"""Pins of the lowest versions that pyproject.toml allows: `numpy>=1.26` becomes `numpy==1.26`.

torch keeps its pin of constraints.txt.  pip reads `==1.26` as 1.26.0.  What the dependencies depend on in turn is left
to pip, which takes the newest: they deprecate what the old versions call, hence the -W.  `make lowest` does:

python scripts/lowest.py --out lowest.txt
pip install -c lowest.txt -e '.[dev,track]'
python -m pytest -n 2 --dist loadfile -W ignore::DeprecationWarning
"""

from __future__ import annotations

import argparse
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)>=([0-9][0-9.]*)")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", type=Path, default=Path("lowest.txt"))
    args = arguments.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    pins = lowest(wanted, (ROOT / "constraints.txt").read_text())
    args.out.write_text("\n".join(pins) + "\n")
    print(f"{args.out}: {len(pins)} packages")


def lowest(requirements: list[str], constraints: str) -> list[str]:
    """One pin per requirement, sorted by name; the line of torch is that of constraints.txt."""
    (torch,) = [line for line in constraints.splitlines() if line.startswith("torch==")]
    pins = [torch]
    for requirement in requirements:
        if requirement.startswith("compvae["):  # an extra made of other extras
            continue
        parsed = REQUIREMENT.fullmatch(requirement)
        if parsed is None:
            raise SystemExit(f"lowest: write {requirement!r} in pyproject.toml as name>=version")
        name, version = parsed.groups()
        if name != "torch":
            pins.append(f"{name}=={version}")
    return sorted(pins, key=str.lower)


if __name__ == "__main__":
    main()
