"""Invertible models in runs, directories, commands and reports; data that nobody can model."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import compvae
from compvae.batch import Batch, CountedParts
from compvae.cli import app
from compvae.errors import CompVAEError, ConfigError, DataError
from compvae.evaluation import plan_for, problem_of
from compvae.model import Model
from compvae.network import structured
from compvae.problems import PROBLEMS
from compvae.report import write_report
from compvae.storage import Provenance
from compvae.train.choice import _SmallWholes
from compvae.train.loop import Trainer
from compvae.train.runs import train_run
from compvae.train.settings import resolve
from compvae.transport.network import Transport
from compvae.verdict.verdict import FLOW, GAUSSIAN, Verdict
from dataset_files import write_kinds
from hopeless_files import HOPELESS
from meter_files import write_all
from runs import cli, same, tensors_of

SHORT: dict[str, Any] = {"steps": 12, "batch": 16, "threads": 1, "checkpoint_every": 4, "check_every": 6}
PARTS = {"low": 2, "high": 1}

REGISTERING = '''
"""Bars: each part is a block of its own height."""
from typing import ClassVar

import torch

from compvae.parts import Categorical, PartsSchema
from compvae.problems import Problem, register


@register
class Bars(Problem):
    name: ClassVar[str] = "bars"
    summary: ClassVar[str] = "blocks of random height"
    specific_names: ClassVar[tuple[str, ...]] = ("height",)
    extensive: ClassVar[bool] = True
    max_parts: ClassVar[int] = 3
    schema = PartsSchema(attributes=(Categorical(name="side", categories=("left", "right")),))
    shape = (4,)

    def draw_specifics(self, parts, noise):
        return 1 + 0.2 * noise.normal("height", parts.kind.shape[1], 1)

    def combine(self, parts, specifics, factors=None):
        shape = torch.tensor([[1.0, 1.0, 0.0, 0.1], [0.1, 0.0, 1.0, 1.0]])[parts.kind]
        return (shape * specifics * parts.mask[..., None]).sum(1)
'''


def run_command(*arguments: str) -> None:
    app(list(arguments), standalone_mode=False)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_kinds(tmp_path_factory.mktemp("kinds") / "data", wholes=90)


@pytest.fixture(scope="module")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> compvae.Run:
    torch.set_num_threads(1)
    return compvae.fit(data, "transport", tmp_path_factory.mktemp("transport") / "run", **SHORT)


@pytest.fixture
def bars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module that registers a problem; not imported yet."""
    (tmp_path / "bars_module.py").write_text(REGISTERING)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "bars_module"
    PROBLEMS.pop("bars", None)
    sys.modules.pop("bars_module", None)


# -- directories and runs ----------------------------------------------------------------------------------------------


def test_a_model_directory_gives_the_same_bytes(run: compvae.Run, tmp_path: Path) -> None:
    place = run.model.save(tmp_path / "copy")
    again = compvae.load(place)
    assert again.config == run.model.config
    assert same(dict(again.network.state_dict()), dict(run.model.network.state_dict()))
    x = run.model.sample(PARTS, n=5, seed=3)
    assert np.array_equal(again.sample(PARTS, n=5, seed=3), x)
    assert np.array_equal(again.log_prob(x, PARTS), run.model.log_prob(x, PARTS))
    card = (place / "README.md").read_text()
    assert "## Verdict" in card
    assert run.verdict is not None
    assert run.verdict.sentences[0] in card
    assert "Gaussian with the data's moments" in card.rpartition("```text")[2]


class _Stop(Exception):  # noqa: N818
    pass


def test_a_run_that_crashed_and_was_resumed_gives_the_same_bytes(
    data: Path, run: compvae.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    advance = Trainer.advance

    def broken(self: Trainer, stop: int = 0) -> Any:
        if self.state.step == 11:
            raise _Stop
        return advance(self, stop)

    options = {"problem": str(data), "preset": "transport", **SHORT}
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "advance", broken)
        with pytest.raises(_Stop):
            train_run(options, tmp_path / "run")
    outcome = train_run({}, tmp_path / "run", resume=True)
    assert "resumed from" in outcome.message
    assert same(tensors_of(tmp_path / "run"), tensors_of(run.directory))
    for name in ("model/model.safetensors", "model/README.md", "verdict.json"):
        assert (tmp_path / "run" / name).read_bytes() == (run.directory / name).read_bytes(), name


def test_two_processes_train_the_model_of_one(data: Path, tmp_path: Path) -> None:
    flags = [str(data), "--preset", "transport", "--steps", "6", "--batch", "32", "--threads", "1", "--quiet"]
    for name, devices in (("one", "1"), ("two", "2")):
        done = cli("train", *flags, "--precision", "64", "--devices", devices, "--out", str(tmp_path / name))
        assert done.returncode == 0, done.stderr
    one, two = tensors_of(tmp_path / "one"), tensors_of(tmp_path / "two")
    assert one.keys() == two.keys()
    for name in (name for name in one if name.startswith("model.")):
        torch.testing.assert_close(one[name], two[name], rtol=1e-5, atol=1e-7)


# -- verdict -----------------------------------------------------------------------------------------------------------


def test_a_run_has_its_verdict_and_the_command_tells_it(
    data: Path, run: compvae.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.verdict == Verdict.read(run.directory) == Verdict.read(run.directory / "model")
    assert str(run.verdict).startswith("On wholes that training did not see") or run.verdict.lost
    flags = ["--steps", "3", "--batch", "16", "--threads", "1", "--quiet", "--preset", "transport"]
    run_command("train", str(data), *flags, "--out", str(tmp_path / "a"))
    captured = capsys.readouterr()
    assert "energy score" in captured.err
    assert "the model is in" in captured.out
    run_command("train", str(data), *flags, "--out", str(tmp_path / "b"), "--json")
    told = json.loads(capsys.readouterr().out)
    assert Verdict.model_validate(told["verdict"]) == Verdict.read(tmp_path / "b")


def test_a_built_in_problem_has_small_as_its_preset_and_no_verdict(tmp_path: Path) -> None:
    options = {**SHORT, "steps": 2, "settings": {"timesteps": 12, "resolution": 6}}
    found = compvae.fit("sines", out=tmp_path / "run", **options)
    assert found.verdict is None
    assert json.loads((tmp_path / "run" / "config.json").read_text())["run"]["preset"] == "small"


def test_own_data_is_trained_by_auto_unless_a_preset_is_named(data: Path, tmp_path: Path) -> None:
    found = compvae.fit(data, out=tmp_path / "run", steps=3, batch=16, threads=1)
    assert found.verdict is not None
    tried = json.loads((tmp_path / "run" / "choice.json").read_text())
    assert {row["preset"] for row in tried} == {"transport", "small", "sums"}
    assert found.verdict.choice == tried
    names = [row.name for row in found.verdict.rows]
    assert names == ["this model", GAUSSIAN, FLOW, f"runner-up ({tried[1]['preset']}, a trial)"]


def test_trials_see_small_wholes_alone(data: Path) -> None:
    config = resolve({"problem": str(data), "preset": "transport", "steps": 3, "batch": 64})
    trial = _SmallWholes(config, config.make_problem(), most=2)
    batch, noise = trial.batch(0)
    assert 0 < len(batch) == len(noise) < 64
    assert int(batch.parts.sizes.max()) == 2


def test_a_model_that_lost_says_so_at_every_use(
    run: compvae.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = {**run.model.provenance.notes, "warning": "These samples are not to be used."}
    place = Model(run.model.network, Provenance(None, {}, notes)).save(tmp_path / "lost")
    capsys.readouterr()
    for _ in range(2):
        compvae.load(place)
        assert capsys.readouterr().err == f"compvae: {place}: These samples are not to be used.\n"
    assert "These samples are not to be used" not in (place / "README.md").read_text()
    run_command("sample", str(place), "--parts", "low:1", "-n", "2", "--json")
    captured = capsys.readouterr()
    assert json.loads(captured.out)
    assert captured.err.count("These samples are not to be used.") == 1


def test_a_damaged_verdict_is_one_sentence(run: compvae.Run, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "verdict.json").write_text("{")
    with pytest.raises(CompVAEError, match=r"verdict\.json is not the verdict of a run"):
        Verdict.read(tmp_path)


def test_each_whole_of_the_data_is_judged_once() -> None:
    batch = Batch(torch.arange(4.0)[:, None], CountedParts(torch.ones(4, 1)), records=torch.tensor([5, 2, 5, 2]))
    assert batch.different().x.flatten().tolist() == [0.0, 1.0]
    fresh = Batch(torch.zeros(4, 1), CountedParts(torch.ones(4, 1)))
    assert len(fresh.different()) == 4, "equal wholes that were drawn afresh are different wholes"


# -- commands ----------------------------------------------------------------------------------------------------------


def test_what_needs_a_decoder_says_so(run: compvae.Run) -> None:
    assert isinstance(run.model.network, Transport)
    with pytest.raises(ConfigError, match="needs a structured model"):
        structured(run.model.network)


def test_observing_and_generating(run: compvae.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, x, w, y, t = str(run.directory), *(str(tmp_path / f"{name}.npz") for name in "xwyt")
    parts = ["--parts", "low:2,high:1"]
    run_command("sample", model, *parts, "-n", "4", "--out", x)
    run_command("infer", model, "--data", x, *parts, "--out", w)
    assert "ln p(x | parts)" in capsys.readouterr().out
    run_command("edit", model, "--data", x, *parts, "--remove", "low:1", "--add", "high:1", "--out", y)
    run_command("tail", model, *parts, "--quantile", "0.9", "-n", "5", "--out", t)
    with np.load(x) as drawn, np.load(w) as inferred, np.load(y) as edited:
        assert inferred["x"] == pytest.approx(drawn["x"], abs=1e-3)
        assert inferred["alone"].shape == (4, 2, 12)
        assert inferred["bound"].shape == (4,)
        assert "bound_w" not in inferred.files
        assert np.isfinite(edited["x"]).all()


def test_the_server_gives_what_python_gives(run: compvae.Run) -> None:
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    from compvae.server.catalogue import Catalogue, Served
    from compvae.server.limits import Limits
    from serving import running

    patient = Limits(seconds=200.0)
    served = Served.of(str(run.directory), patient)
    x = run.model.sample(PARTS, n=2, seed=4)
    body = {"model": served.name, "parts": PARTS}
    with running(Catalogue([served]), patient) as server:
        asked = {
            "sample": {"n": 2, "seed": 4},
            "infer": {"x": x[0].tolist()},
            "edit": {"x": x[0].tolist(), "edits": [{"remove": {"low": 1}}], "n": 2},
            "tail": {"event": "peak", "quantile": 0.9, "n": 3},
        }
        found = {name: server.client.post(f"/api/{name}", json={**body, **more}) for name, more in asked.items()}
    for name, answer in found.items():
        assert answer.status_code == 200, (name, answer.text)
    assert np.asarray(found["sample"].json()["x"], np.float32) == pytest.approx(x, rel=1e-6)
    total = found["infer"].json()["bound"]["total"]
    assert total == pytest.approx(run.model.log_prob(x[0], PARTS), rel=1e-6)


def test_evaluation_and_report_of_own_data(
    run: compvae.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_command("evaluate", str(run.directory), "--quick", "--quiet", "--json")
    names = {row["name"] for row in json.loads(capsys.readouterr().out)["measures"]}
    assert {"energy score", "coverage of 90%"} <= names
    page = write_report(str(run.directory), tmp_path / "page.html", quick=True, say=lambda text: None).read_text()
    assert run.verdict is not None
    assert page.index('id="verdict"') < page.index('id="measures"')
    assert "flow on the counts" in page
    assert "units in which parts add up" in page
    assert "Live coordinates" not in page


def test_plans_of_meters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = write_all(tmp_path / "files")
    found = compvae.fit(
        files["meters"], "transport", tmp_path / "run", profiles=files["homes"], context=files["days"], **SHORT
    )
    assert found.verdict is not None
    run_command("plan", str(tmp_path / "run"), "--parts", "small:3,large:2", "-n", "100", "--json")
    assert json.loads(capsys.readouterr().out)
    run_command("evaluate", str(tmp_path / "run"), "--quick", "--quiet", "--json")
    assert json.loads(capsys.readouterr().out)["measures"]


def test_registered_problems_are_evaluated_and_reported(
    bars: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    run_command(
        "train", "bars", "--import", bars, "--preset", "transport", "--steps", "5", "--batch", "16", "--threads", "1",
        "--quiet", "--out", str(out),
    )  # fmt: skip
    capsys.readouterr()
    run_command("evaluate", str(out), "--quick", "--quiet", "--json")
    rows = json.loads(capsys.readouterr().out)["measures"]
    assert {"relED", "edit remove", "C2ST"} <= {row["name"] for row in rows}
    assert {row["K"] for row in rows if row["name"] == "relED"} == {1, 3, 6}
    page = write_report(str(out), tmp_path / "page.html", quick=True, say=lambda text: None).read_text()
    assert page.index('id="verdict"') < page.index('id="claims"')
    assert "place along x" in page
    assert plan_for(problem_of(compvae.load(out))).sizes == (1, 2, 3, 6)
    PROBLEMS.pop("bars")
    with pytest.raises(ConfigError, match="'bars', which is not registered here: import bars_module first"):
        problem_of(compvae.load(out))
    with pytest.raises(ConfigError, match="--import nowhere"):
        run_command("evaluate", str(out), "--import", "nowhere")


# -- data that nobody can model ----------------------------------------------------------------------------------------

REFUSED = {
    "one_whole": "all training wholes are alike",
    "all_alike": "all training wholes are alike",
    "not_a_number": "holds NaN or infinite values, first at index",
}
SAID = {
    "a_kind_that_hardly_occurs": "rare: no whole has two of it",
    "five_wide_wholes": "Only one whole was held out",
    "constant_in_places": "Only 12 different wholes were held out",
}


@pytest.mark.parametrize("make", HOPELESS, ids=lambda make: make.__name__)
def test_hopeless_data_is_a_clear_error_or_a_model_with_a_verdict(make: Callable[[Path], Path], tmp_path: Path) -> None:
    name, options = make.__name__, {"steps": 30, "batch": 16, "threads": 1}
    if name in REFUSED:
        with pytest.raises(DataError, match=REFUSED[name]):
            compvae.fit(make(tmp_path / "data"), "transport", tmp_path / "run", **options)
        return
    found = compvae.fit(make(tmp_path / "data"), "transport", tmp_path / "run", **options)
    assert found.verdict is not None
    assert SAID.get(name, "") in " ".join(found.verdict.sentences)
    x = found.model.sample(PARTS, n=20)
    assert np.isfinite(x).all()
    assert np.isfinite(found.model.infer(x[:2], PARTS).remove({"low": 1}).decode()).all()
    if name == "constant_in_places":
        assert x[:, 2] == pytest.approx(np.full(20, 4.0), abs=0.01)
    if name == "integers":
        assert np.array_equal(x, x.round())
        assert (x >= 0).all()
