"""The five-minute start on a clean machine: a wheel, a fresh venv outside the checkout, docs/start.md line by line.

python benchmarks/clean_walk.py            # says what is typed, what is seen, and the seconds of each line
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"```(sh|python)\n(.*?)```", re.DOTALL)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--python", default="python3", help="the interpreter of the fresh venv")
    args = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="clean_walk_") as place:
        wheel = build_wheel(Path(place) / "dist")
        walk = Path(place) / "walk"
        walk.mkdir()
        raise SystemExit(subprocess.run(["bash", "-c", script(wheel, args.python)], cwd=walk, env=clean()).returncode)


def build_wheel(out: Path) -> Path:
    """The wheel of this checkout."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = out.glob("*.whl")
    return wheel


def clean() -> dict[str, str]:
    """The environment without anything that leads back to the checkout."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def script(wheel: Path, python: str) -> str:
    """All blocks of docs/start.md as one shell script that says each line before it runs it."""
    lines, written = ["set -e"], ""
    for language, text in BLOCK.findall((ROOT / "docs" / "start.md").read_text()):
        if language == "python":  # blocks go on where the one before ended, as in one session
            written += text
            lines += [f"cat > start.py <<'END'\n{written}END", *said("python start.py")]
            continue
        for line in text.splitlines():
            here = line.replace("python3", python).replace("compvae[report]", f"{wheel}[report]")
            lines += said(f"{here} --quiet -c {ROOT / 'constraints.txt'}" if here.startswith("pip ") else here)
    return "\n".join([*lines, "echo all lines done"])


def said(line: str) -> list[str]:
    """A line, announced, run and timed."""
    return [f"echo {shlex.quote('$ ' + line)}", "SECONDS=0", line, 'echo "  ($SECONDS s)"']


if __name__ == "__main__":
    main()
