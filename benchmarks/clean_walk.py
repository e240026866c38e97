"""The five-minute start on a clean machine: a wheel, a fresh venv outside the checkout, docs/start.md line by line.

python benchmarks/clean_walk.py            # says what is typed, what is seen, and the seconds of each line
python benchmarks/clean_walk.py --record docs/results.md     # and writes it there, in the place of the last walk
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
HEADING = "## A clean machine"
BLOCK = re.compile(r"```(sh|python)\n(.*?)```", re.DOTALL)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--python", default="python3", help="the interpreter of the fresh venv")
    arguments.add_argument("--record", type=Path, help="page to write what was typed and seen into")
    args = arguments.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="clean_walk_") as place:
        wheel = build_wheel(Path(place) / "dist")
        walk = Path(place) / "walk"
        walk.mkdir()
        code, lines = walked(script(wheel, args.python), walk, {str(wheel): wheel.name, f"{ROOT}/": ""})
    if code == 0 and args.record is not None:
        args.record.write_text(recorded(args.record.read_text(), lines, time.monotonic() - started))
    raise SystemExit(code)


def walked(text: str, place: Path, names: dict[str, str]) -> tuple[int, list[str]]:
    """Run a script there: its exit code, and what was seen.  names: of what lies elsewhere in every run."""
    seen = []
    command = ["bash", "-c", f"exec 2>&1\n{text}"]
    with subprocess.Popen(command, cwd=place, env=clean(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            for long, short in names.items():
                line = line.replace(long, short)
            if not line.startswith("WARNING: Location"):  # of this machine's indexes of packages
                seen.append(line.rstrip())
    return process.returncode, seen


def recorded(page: str, lines: list[str], seconds: float) -> str:
    """The page with this walk in the place of the last one, or at its end."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    about = f"{HEADING} ({time.strftime('%Y-%m-%d', time.gmtime())}, commit {commit.stdout.strip()})"
    told = f"A wheel, a fresh venv outside the checkout, [start.md](start.md) line by line: {seconds:.0f} s{busy()}."
    how = "    python benchmarks/clean_walk.py --record docs/results.md"
    section = "\n".join([about, "", how, "", told, "", "```text", *lines, "```", ""])
    before, there, after = page.partition(HEADING)
    if not there:
        return f"{page.rstrip()}\n\n{section}"
    _, more, rest = after.partition("\n## ")
    return before + section + (f"\n## {rest}" if more else "")


def busy() -> str:
    """What else the machine did meanwhile."""
    return f" (load average {os.getloadavg()[2]:.1f} on {os.cpu_count()} cores)"


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
