"""What README and CONTRIBUTING tell a reader to type works."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

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


def test_scripts_named_in_the_command_table_exist_and_explain_themselves() -> None:
    for script in set(re.findall(r"`python (\S+\.py)", README)):
        if "data_cost" not in script:
            done = subprocess.run(
                [sys.executable, ROOT / script, "--help"], capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
        assert (ROOT / script).exists()


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
