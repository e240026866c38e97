"""A lock with hashes from pip's own resolution: name==version --hash=sha256:..., one package a line.

torch is left out: its CPU wheel comes from an index of its own or from a file, under a local version and with a hash
that no other index knows.  constraints.txt pins it.

pip install --dry-run --ignore-installed --report report.json -c constraints.txt '.[dev]'
python scripts/lock.py report.json --out requirements.lock
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

HEAD = """\
# Made by: pip install --dry-run --ignore-installed --report report.json -c constraints.txt '.[dev]'
#          python scripts/lock.py report.json --out requirements.lock
# For Python {python} on {platform}: a wheel of another platform has another hash.
# torch is not in it (scripts/lock.py says why); constraints.txt pins it.
# pip install --require-hashes --no-deps -r requirements.lock, then pip install -c constraints.txt '.[dev]'
"""

UNLOCKED = ("torch",)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("report", type=Path)
    arguments.add_argument("--out", type=Path, default=Path("requirements.lock"))
    args = arguments.parse_args()
    report = json.loads(args.report.read_text())
    args.out.write_text(lock(report))
    print(f"{args.out}: {len(locked(report))} packages")


def lock(report: dict[str, Any]) -> str:
    """The text of the file."""
    where = report["environment"]
    head = HEAD.format(python=where["python_version"], platform=f"{where['sys_platform']} {where['platform_machine']}")
    return head + "\n".join(locked(report)) + "\n"


def locked(report: dict[str, Any]) -> list[str]:
    """A line for every package but our own and torch, in the order of their names."""
    others = [one for one in report["install"] if "dir_info" not in one["download_info"]]
    return sorted((line(one) for one in others if one["metadata"]["name"] not in UNLOCKED), key=str.lower)


def line(one: dict[str, Any]) -> str:
    """name==version with the hash of the file that pip chose."""
    about, archive = one["metadata"], one["download_info"]["archive_info"]
    if "sha256" not in archive.get("hashes", {}):
        raise SystemExit(f"lock: the index gives no sha256 of {about['name']} {about['version']}")
    return f"{about['name']}=={about['version']} --hash=sha256:{archive['hashes']['sha256']}"


if __name__ == "__main__":
    main()
