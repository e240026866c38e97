"""What README and CONTRIBUTING tell a reader to type works."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import numpy as np
import pytest

from calls import call
from meter_files import write_all

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which ``make demo`` was run, with a few steps in place of thousands."""
    place = tmp_path_factory.mktemp("demo")
    command = [sys.executable, str(ROOT / "examples" / "demo.py"), "--out", "runs/demo", "--steps", "30"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "the page is" in done.stdout
    return place


def test_the_demo_leaves_a_page_a_model_and_samples(demo: Path) -> None:
    page = (demo / "runs" / "demo" / "report.html").read_text()
    assert page.count("<svg") == page.count("<figure") > 1
    assert not re.findall(r"(?:src|href)=[\"']https?://", page)
    assert np.load(demo / "runs" / "demo" / "samples.npz")["x"].shape == (1000, 200)


def test_the_python_of_the_readme_runs(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    monkeypatch.chdir(demo)
    names: dict[str, object] = {}
    exec(code, names)
    assert np.asarray(names["y"]).shape == (1000, 200)
    assert np.asarray(names["edited"]).shape == (100, 200)
    assert abs(float(getattr(names["extreme"], "probability")) - 0.01) < 0.005  # noqa: B009


def test_every_make_target_of_the_readme_exists() -> None:
    targets = set(re.findall(r"^make (\w+)", README, re.MULTILINE))
    assert targets == {"demo", "test"}
    makefile = (ROOT / "Makefile").read_text()
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
        dry = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
        assert dry.returncode == 0, dry.stderr


TABLE = re.findall(r"^\| `(compvae [^`]+)`", README, re.MULTILINE)
CUT = {  # what makes a command short, for commands whose work takes minutes
    "train": "--steps 4 --batch 16 --threads 1",
    "sample": "-n 20",
    "evaluate": "--quick --sizes 1 --compositions 1",
    "bench": "--quick",
    "report": f"--evaluation {ROOT}/benchmarks/results/sines.json",
}
ELSEWHERE = {
    "serve": "runs until it is told to end: test_the_server_of_the_readme_answers",
    "data": "fetches: tests/test_citylearn.py runs it on a wheel of its own",
}


def test_the_commands_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of the table in its order, in one directory with meter readings in it."""
    assert len(TABLE) > 10
    write_all(tmp_path, homes=40, days=20)
    monkeypatch.chdir(tmp_path)
    done = []
    for line in TABLE:
        _, name, *words = shlex.split(line)
        if name in ELSEWHERE:
            continue
        code, _, told = call(name, *words, *shlex.split(CUT.get(name, "")))
        assert code == 0, f"{line}: {told}"
        done.append(name)
    assert {shlex.split(line)[1] for line in TABLE} == {*done, *ELSEWHERE}
    for written in ("runs/sines", "x.npz", "w.npz", "y.npz", "top.npz", "report.html", "plan.html", "runs/mine"):
        assert (tmp_path / written).exists(), written


def test_the_server_of_the_readme_answers() -> None:
    (line,) = [line for line in TABLE if " serve " in line]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    words = [port if word == "8765" else word for word in shlex.split(line)[1:]]
    command = [sys.executable, "-m", "compvae", *words, "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        try:
            assert f"http://127.0.0.1:{port}/" in server.stdout.readline()
            for _ in range(100):
                with contextlib.suppress(httpx.ConnectError):
                    assert httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False).json() == {"status": "ok"}
                    break
                time.sleep(0.1)
            else:
                pytest.fail("the server did not answer")
        finally:
            server.terminate()


def test_links_inside_the_documents_resolve() -> None:
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def run_cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "compvae", *arguments], capture_output=True, text=True, check=False)


def test_the_problems_command_lists_what_there_is() -> None:
    listed = json.loads(run_cli("problems", "--json").stdout)["problems"]
    assert [row["name"] for row in listed] == ["sines", "colours", "households"]
    assert listed[0]["attributes"][0]["categories"] == [str(f) for f in range(1, 11)]
    assert listed[1]["shape"] == [3, 32, 32]
    assert [row["context"] for row in listed] == [[], [], ["day_type", "temperature"]]
    assert "hidden in each: amplitude, phase" in run_cli("problems").stdout


def test_the_command_line_answers_help_without_torch_and_refuses_nonsense() -> None:
    code = "import sys, compvae.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert "problems" in run_cli("--help").stdout
    wrong = run_cli("problms")
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr
