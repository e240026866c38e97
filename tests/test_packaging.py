"""What is shipped: the wheel and what is in it, its bill of materials, the lock, missing extras, the command."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import compvae
from compvae.baselines import BASELINES
from compvae.cli import app
from compvae.errors import MissingExtraError

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "compvae"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
INSTRUCTIONS = ("ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA")  # other ones give other bytes


def script(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return script("benchmarks/clean_walk.py").build_wheel(tmp_path_factory.mktemp("dist"))


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    there = {path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert names == {str(path.relative_to(SOURCE.parent)) for path in there}
    for needed in (
        "py.typed",
        "report/page.html.jinja",
        "server/static/index.html",
        "server/static/vendor/uPlot.min.js",
    ):
        assert f"compvae/{needed}" in names
    for model in ("sines", "colours", "households"):
        assert {f"compvae/models/{model}/{file}" for file in ("config.json", "model.safetensors", "README.md")} <= names


def test_the_wheel_runs_from_where_it_lies(wheel: Path, tmp_path: Path) -> None:
    """Unpacked far from the checkout, by ``python -m compvae``, with the shipped model inside."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    command = [sys.executable, "-m", "compvae", "sample", "sines", "--parts", "3:2", "-n", "3", "--out", "x.npz"]
    settings = {name: os.environ[name] for name in INSTRUCTIONS if name in os.environ}
    environment = {"PYTHONPATH": str(tmp_path / "site"), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", **settings}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = compvae.load("sines").sample({"3": 2}, n=3)
    assert np.array_equal(np.load(tmp_path / "x.npz")["x"], expected)


def test_a_walk_is_recorded_in_the_place_of_the_last_one() -> None:
    recorded = script("benchmarks/clean_walk.py").recorded
    page = recorded("# Results\n\nfirst\n", ["$ one"], 3.0) + "\n## Next\n\nmore\n"
    again = recorded(page, ["$ two"], 4.0)
    assert again.startswith("# Results\n\nfirst\n\n## A clean machine (")
    assert again.endswith("```text\n$ two\n```\n\n## Next\n\nmore\n")
    assert "$ one" not in again


def test_its_metadata_keeps_extras_apart(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if name.endswith("METADATA")]
    required = [Requirement(text) for text in re.findall(r"^Requires-Dist: (.+)$", archive.read(name).decode(), re.M)]
    always = {one.name for one in required if one.marker is None}
    assert always == {"torch", "numpy", "pydantic", "safetensors", "typer", "lightning-fabric"}
    assert f"compvae-{compvae.__version__}-" in wheel.name


def test_the_bill_of_materials_names_what_is_needed_and_no_more() -> None:
    sbom = script("scripts/sbom.py")
    document = sbom.bill(set())
    names = {canonicalize_name(one["name"]) for one in document["components"]}
    assert {canonicalize_name(Requirement(text).name) for text in PROJECT["dependencies"]} <= names
    assert not names & {"fastapi", "matplotlib", "pytest"}
    assert "fastapi" in {one["name"] for one in sbom.bill({"serve"})["components"]}
    references = {one["bom-ref"] for one in document["components"]} | {document["metadata"]["component"]["bom-ref"]}
    assert {one["ref"] for one in document["dependencies"]} == references
    assert {other for one in document["dependencies"] for other in one["dependsOn"]} <= references


def test_the_lock_has_a_hash_for_everything_and_agrees_with_the_constraints() -> None:
    lines = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if not line.startswith("#")]
    locked = {}
    for line in lines:
        name, version = re.fullmatch(r"(\S+)==(\S+) --hash=sha256:[0-9a-f]{64}", line).groups()  # type: ignore[union-attr]
        locked[canonicalize_name(name)] = version.split("+")[0]
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line[:40])
    pinned = {canonicalize_name(name): version for name, version in pins.items() if not name.startswith("#")}
    assert {name: locked[name] for name in pinned if name in locked} == {n: v for n, v in pinned.items() if n in locked}
    assert set(pinned) - set(locked) == {"tensorboard", "torch"}  # the extra track; see scripts/lock.py


def test_a_lock_is_refused_where_the_index_gives_no_hash() -> None:
    lock = script("scripts/lock.py")
    one = {"metadata": {"name": "a", "version": "1"}, "download_info": {"archive_info": {"hashes": {"sha256": "ff"}}}}
    assert lock.line(one) == "a==1 --hash=sha256:ff"
    with pytest.raises(SystemExit, match="no sha256 of a 1"):
        lock.line({**one, "download_info": {"archive_info": {}}})


def test_the_citation_has_the_version_of_the_package() -> None:
    assert f"\nversion: {compvae.__version__}\n" in (ROOT / "CITATION.cff").read_text()


MISSING = {
    "serve": ("fastapi", ["serve", "sines", "--no-browser"]),
    "report": ("jinja2", ["report", "sines", "--evaluation", str(ROOT / "benchmarks" / "results" / "sines.json")]),
    "data": ("pyarrow.parquet", ["sample", "sines", "--parts", "3:2", "-n", "1", "--out", "x.parquet"]),
}


@pytest.mark.parametrize("extra", MISSING)
def test_a_command_without_its_extra_says_which(extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, arguments = MISSING[extra]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"^this needs .*pip install 'compvae\[{extra}\]'$"):
        app(arguments, standalone_mode=False)
    assert not list(tmp_path.iterdir())


def test_the_flow_says_that_it_needs_the_baselines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zuko.flows", None)
    with pytest.raises(MissingExtraError, match=r"compvae\[baselines\]"):
        BASELINES["flow"](compvae.problems.get("sines"), compvae.load("sines"), 0)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete_the_commands(shell: str) -> None:
    variables = {"_COMPVAE_COMPLETE": f"complete_{shell}", "COMP_WORDS": "compvae sa", "COMP_CWORD": "1"}
    variables |= {"_TYPER_COMPLETE_ARGS": "compvae sa", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    code = "import sys; sys.argv[0] = 'compvae'; from compvae.cli import main; main()"
    environment = {**variables, "PYTHONPATH": str(SOURCE.parent), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert "sample" in done.stdout, done.stderr


def test_the_lowest_versions_are_those_of_the_project() -> None:
    lowest = script("scripts/lowest.py").lowest
    constraints = "# tried\ntorch==2.13.0\nnumpy==2.4.6\n"
    wanted = ["torch>=2.13", "numpy>=1.26", "compvae[serve]", "POT>=0.9.4"]
    assert lowest(wanted, constraints) == ["numpy==1.26", "POT==0.9.4", "torch==2.13.0"]
    for unclear in ("numpy", "numpy<2", "numpy>=1.26,<3"):
        with pytest.raises(SystemExit, match="as name>=version"):
            lowest([unclear], constraints)


def test_every_dependency_has_a_lowest_version_and_the_tried_one_is_not_below_it() -> None:
    extras = [one for extra in PROJECT["optional-dependencies"].values() for one in extra]
    wanted = [one for one in [*PROJECT["dependencies"], *extras] if not one.startswith("compvae[")]
    constraints = (ROOT / "constraints.txt").read_text()
    assert len(script("scripts/lowest.py").lowest(wanted, constraints)) == len(wanted)
    pins = [Requirement(line) for line in constraints.splitlines() if not line.startswith("#")]
    tried = {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin in pins}
    for requirement in map(Requirement, wanted):
        version = tried.get(canonicalize_name(requirement.name))
        assert version is None or requirement.specifier.contains(version), requirement
