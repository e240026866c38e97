"""compvae sample, infer, edit, tail: what they write is what the package gives; exit codes; nothing half-written."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from calls import call
from compvae import PartsBatch
from compvae.config import ModelConfig
from compvae.data.wholes import read_observed
from compvae.model import Model
from models import CONFIGS, WEATHER, build
from runs import cli

PARTS = {"a": 2, "c": 1}
SITES = [{"colour": "red", "x": 0.2, "y": -0.5}, {"colour": "green", "x": -0.7, "y": 0.1}]
ENDINGS = (".npz", ".csv", ".parquet")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Model directories: notes, sites, weather."""
    place = tmp_path_factory.mktemp("models")
    data = CONFIGS["collapsed, linked, blocks"].model_dump(mode="json")
    Model(build(CONFIGS["collapsed, linked, blocks"])).save(place / "notes")
    Model(build(CONFIGS["newton, placed"])).save(place / "sites")
    Model(build(ModelConfig.read({**data, "context": [a.model_dump() for a in WEATHER]}))).save(place / "weather")
    return place


@pytest.fixture
def notes(models: Path) -> Model:
    return Model.load(models / "notes")


@pytest.mark.parametrize("ending", ENDINGS)
def test_samples_come_back_exactly_whatever_the_format(ending: str, models: Path, notes: Model, tmp_path: Path) -> None:
    out = tmp_path / f"x{ending}"
    code, said, _ = call("sample", models / "notes", "--parts", "a:2,c:1", "-n", 1000, "--seed", 5, "--out", out)
    assert code == 0
    assert "1,000 wholes" in said
    expected = notes.sample(PARTS, n=1000, seed=5)
    ids, x = read_observed(out, notes.shape)
    assert np.array_equal(x, expected)
    assert ids == [str(row) for row in range(1000)]
    assert [path.name for path in tmp_path.iterdir()] == [out.name]
    again, turned, few = (tmp_path / f"{name}{ending}" for name in ("again", "turned", "few"))
    for path, parts, n in ((again, "a:2,c:1", 1000), (turned, "c:1,a:1,a:1", 1000), (few, "a:2,c:1", 10)):
        assert call("sample", models / "notes", "--parts", parts, "-n", n, "--seed", 5, "--out", path)[0] == 0
    assert again.read_bytes() == out.read_bytes()
    assert np.array_equal(read_observed(turned, notes.shape)[1], expected)
    assert np.array_equal(read_observed(few, notes.shape)[1], expected[:10])


def test_an_npz_file_holds_parts_and_seed_and_images_keep_their_shape(models: Path, tmp_path: Path) -> None:
    parts = json.dumps(SITES)
    for ending in ENDINGS:
        out = tmp_path / f"x{ending}"
        code, said, _ = call(
            "sample", models / "sites", "--parts", parts, "-n", 4, "--no-noise", "--out", out, "--json"
        )
        assert code == 0
        assert json.loads(said)["shape"] == [4, 3, 5, 5]
        model = Model.load(models / "sites")
        assert np.array_equal(read_observed(out, model.shape)[1], model.sample(SITES, n=4, noise=False))
    with np.load(tmp_path / "x.npz", allow_pickle=False) as found:
        assert sorted(found.files) == ["parts", "seed", "x"]
        assert int(found["seed"]) == 0
        assert np.array_equal(model.sample(json.loads(str(found["parts"])), n=4, noise=False), found["x"])
    assert (tmp_path / "x.csv").read_text().startswith("x_0_0_0,x_0_0_1,")
    import pyarrow.parquet

    assert json.loads(pyarrow.parquet.read_schema(tmp_path / "x.parquet").metadata[b"parts"])[0]["colour"] == "red"


def test_parts_may_stand_in_files(models: Path, notes: Model, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("note,count\na,2\nc,1\n")
    (tmp_path / "p.json").write_text('{"a": 2, "c": 1}')
    documents = [
        call("sample", models / "notes", "--parts", parts, "-n", 3, "--json")[1]
        for parts in ("a:2,c:1", tmp_path / "p.csv", tmp_path / "p.json", '[{"note": "a", "count": 2}, {"note": "c"}]')
    ]
    assert len(set(documents)) == 1
    (tmp_path / "s.csv").write_text("colour,x,y\nred,0.2,-0.5\ngreen,-0.7,0.1\n")
    files = call("sample", models / "sites", "--parts", tmp_path / "s.csv", "-n", 3, "--json")[1]
    assert files == call("sample", models / "sites", "--parts", json.dumps(SITES), "-n", 3, "--json")[1]


def test_context_reaches_the_model(models: Path, tmp_path: Path) -> None:
    model, out = Model.load(models / "weather"), tmp_path / "x.npz"
    told = "temperature=-5,day=end"
    assert call("sample", models / "weather", "--parts", "a:2", "--context", told, "-n", 3, "--out", out)[0] == 0
    assert np.array_equal(np.load(out)["x"], model.sample({"a": 2}, n=3, context={"temperature": -5, "day": "end"}))


def test_infer_gives_the_whole_each_part_alone_and_the_bound(models: Path, notes: Model, tmp_path: Path) -> None:
    x, out = notes.sample(PARTS, n=5), tmp_path / "w.npz"
    np.savez(tmp_path / "x.npz", x=x)
    code, said, _ = call(
        "infer", models / "notes", "--data", tmp_path / "x.npz", "--parts", "a:2,c:1", "--out", out, "--json"
    )
    assert code == 0
    composition, terms = notes.infer(x, PARTS), notes.elbo(x, PARTS)
    with np.load(out, allow_pickle=False) as found:
        assert np.array_equal(found["x"], composition.decode())
        assert np.array_equal(found["alone"], np.stack([composition.part(0), composition.part(2)], 1))
        assert np.array_equal(found["bound"], terms.total)
        assert np.array_equal(found["bound_w"], terms.w)
        assert json.loads(str(found["parts"])) == [{"note": "a", "count": 2}, {"note": "c", "count": 1}]
    assert json.loads(said)["bound"] == pytest.approx(float(np.mean(terms.total)), rel=1e-5)


def test_each_whole_may_have_its_own_parts(models: Path, notes: Model, tmp_path: Path) -> None:
    x, out = notes.sample(PARTS, n=2), tmp_path / "w.npz"
    np.savez(tmp_path / "x.npz", x=x, whole_id=np.array(["mon", "tue"]))
    (tmp_path / "p.csv").write_text("whole_id,note,count\ntue,b,4\nmon,a,1\nmon,c,2\n")
    arguments = ("--data", tmp_path / "x.npz", "--parts", tmp_path / "p.csv", "--out", out)
    assert call("infer", models / "notes", *arguments)[0] == 0
    composition = notes.infer(x, PartsBatch([{"a": 1, "c": 2}, {"b": 4}]))
    with np.load(out) as found:
        assert np.array_equal(found["x"], composition.decode())
        assert found["whole_id"].tolist() == ["mon", "tue"]
        assert np.isnan(found["alone"][1, 1]).all()
        assert np.array_equal(found["alone"][:, 0], composition.part(0))


def test_edit_removes_and_adds_in_the_mean_and_in_draws(models: Path, notes: Model, tmp_path: Path) -> None:
    x, data = notes.sample(PARTS, n=2), tmp_path / "x.csv"
    assert call("sample", models / "notes", "--parts", "a:2,c:1", "-n", 2, "--out", data)[0] == 0
    start = ("edit", models / "notes", "--data", data, "--parts", "a:2,c:1")
    first = notes.infer(x, PARTS)
    for flags, edited in (
        (("--remove", "a:1"), first.remove({"a": 1})),
        (("--add", "b:1"), first.add({"b": 1})),
        (("--remove", "a:2,c:1", "--add", "b:1"), first.replace(PARTS, {"b": 1})),
    ):
        assert call(*start, *flags, "--out", tmp_path / "y.npz")[0] == 0
        assert np.array_equal(np.load(tmp_path / "y.npz")["x"], edited.decode())
    assert call(*start, "--remove", "a:1", "-n", 3, "--seed", 4, "--out", tmp_path / "y.npz")[0] == 0
    with np.load(tmp_path / "y.npz", allow_pickle=False) as found:
        draws = first.remove({"a": 1}).decode(n=3, seed=4)
        assert np.array_equal(found["x"], draws.swapaxes(0, 1).reshape(6, *notes.shape))
        assert found["whole_id"].tolist() == ["0", "0", "0", "1", "1", "1"]
        assert found["draw"].tolist() == [0, 1, 2, 0, 1, 2]
        assert json.loads(str(found["parts"])) == [{"note": "a", "count": 1}, {"note": "c", "count": 1}]
        assert json.loads(str(found["parts_before"]))[0]["count"] == 2


def test_tail_writes_weights_and_what_is_known_of_the_probability(models: Path, notes: Model, tmp_path: Path) -> None:
    out = tmp_path / "t.npz"
    arguments = ("tail", models / "notes", "--parts", "a:2,c:1", "--quantile", 0.9, "-n", 20)
    code, said, _ = call(*arguments, "--out", out, "--json")
    assert code == 0
    expected = notes.tail(PARTS, "peak", quantile=0.9, n=20)
    with np.load(out, allow_pickle=False) as found:
        assert np.array_equal(found["x"], expected.x)
        assert np.array_equal(found["weights"], expected.weights)
        for name in ("probability", "cv", "ess", "threshold", "method", "seed"):
            assert found[name][()] == getattr(expected, name)
    assert json.loads(said)["threshold"] == expected.threshold
    for ending in (".csv", ".parquet"):
        assert call(*arguments, "--out", tmp_path / f"t{ending}")[0] == 0
        assert np.array_equal(read_observed(tmp_path / f"t{ending}", notes.shape)[1], expected.x)
    assert "weights" in (tmp_path / "t.csv").read_text().splitlines()[0].split(",")


# -- exit codes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("code", "arguments", "message"), [
    (2, ("sample", "{m}/notes"), "--parts"),
    (2, ("sample", "{m}/nosuch", "--parts", "a:1"), "neither a shipped model"),
    (2, ("sample", "{m}/notes", "--parts", "q:1"), "'q' is unknown"),
    (2, ("sample", "{m}/notes", "--parts", "a"), "write name:count"),
    (2, ("sample", "{m}/notes", "--parts", "a:1.5"), "whole number"),
    (2, ("sample", "{m}/notes", "--parts", "a:0"), "is empty"),
    (2, ("sample", "{m}/notes", "--parts", "[{"), "not valid JSON"),
    (2, ("sample", "{m}/notes", "--parts", "{t}/none.csv"), "no such file"),
    (2, ("sample", "{m}/sites", "--parts", "red:1"), "list of dicts"),
    (2, ("sample", "{m}/notes", "--parts", "a:1", "-n", "0"), "-n"),
    (2, ("sample", "{m}/notes", "--parts", "a:1", "--out", "{t}/x.txt"), "must end in"),
    (2, ("sample", "{m}/notes", "--parts", "a:1", "--context", "t=1"), "unknown covariate"),
    (2, ("sample", "{m}/weather", "--parts", "a:1", "--context", "temperature=warm"), "must be a number"),
    (2, ("sample", "{m}/weather", "--parts", "a:1", "--context", "temperature"), "covariate=value"),
    (2, ("edit", "{m}/notes", "--data", "{t}/good.csv", "--parts", "a:1"), "--remove"),
    (2, ("edit", "{m}/notes", "--data", "{t}/good.csv", "--parts", "a:1", "--remove", "b:1"), "there is none"),
    (2, ("infer", "{m}/notes", "--data", "{t}/none.npz", "--parts", "a:1"), "no such file"),
    (2, ("infer", "{m}/notes", "--data", "{t}/good.txt", "--parts", "a:1"), "ends in"),
    (2, ("tail", "{m}/notes", "--parts", "a:1"), "quantile"),
    (2, ("tail", "{m}/notes", "--parts", "a:1", "--quantile", "2"), "between 0 and 1"),
    (2, ("tail", "{m}/notes", "--parts", "a:1", "--quantile", "0.9", "--event", "noon"), "peak, energy, ramp"),
    (3, ("infer", "{m}/notes", "--data", "{t}/text.csv", "--parts", "a:1"), "text.csv, row 3, column 'x1': 'warm'"),
    (3, ("infer", "{m}/notes", "--data", "{t}/nan.csv", "--parts", "a:1"), "nan.csv, row 2, column 'x2'"),
    (3, ("infer", "{m}/notes", "--data", "{t}/few.csv", "--parts", "a:1"), "needs 6 columns, x0 to x5"),
    (3, ("infer", "{m}/notes", "--data", "{t}/bare.csv", "--parts", "a:1"), "names of the columns"),
    (3, ("infer", "{m}/notes", "--data", "{t}/junk.npz", "--parts", "a:1"), "not a readable npz"),
    (3, ("infer", "{m}/notes", "--data", "{t}/nan.npz", "--parts", "a:1"), r"index (1, 2)"),
    (3, ("infer", "{m}/notes", "--data", "{t}/wide.npz", "--parts", "a:1"), "needs shape (n, 6), got (2, 7)"),
    (3, ("infer", "{m}/notes", "--data", "{t}/objects.npz", "--parts", "a:1"), "not a readable npz"),
    (3, ("infer", "{m}/notes", "--data", "{t}/other.npz", "--parts", "a:1"), "'x' is missing"),
    (3, ("infer", "{m}/notes", "--data", "{t}/junk.parquet", "--parts", "a:1"), "not a readable Parquet"),
    (3, ("infer", "{m}/notes", "--data", "{t}/nan.parquet", "--parts", "a:1"), "row 1, column 'x0'"),
    (3, ("infer", "{m}/notes", "--data", "{t}/good.csv", "--parts", "{t}/other_ids.csv"), "no parts for the whole '0'"),
    (3, ("sample", "{m}/notes", "--parts", "{t}/bad_parts.csv"), "bad_parts.csv, row 3, column 'note'"),
    (3, ("sample", "{m}/notes", "--parts", "{t}/bad_count.csv"), "bad_count.csv, row 2, column 'count'"),
    (3, ("sample", "{m}/notes", "--parts", "{t}/bad.json"), "not valid JSON"),
    (3, ("sample", "{m}/notes", "--parts", "{t}/other_ids.csv"), "one composition is needed"),
    (3, ("sample", "{t}/broken", "--parts", "a:1"), "not valid JSON"),
    (5, ("tail", "{m}/notes", "--parts", "a:1", "--threshold", "1e9", "--out", "{t}/never.npz"), ""),
    (1, ("sample", "{m}/notes", "--parts", "a:1", "-n", "3", "--out", "{t}/none/x.npz"), "cannot write"),
    (1, ("sample", "{m}/notes", "--parts", "a:1", "-n", "3", "--out", "{t}/dir.npz"), "cannot write"),
    (1, ("sample", "{m}/notes", "--parts", "a:1", "-n", "9999999999", "--out", "{t}/never.npz"), "GB are needed"),
])  # fmt: skip
def test_exit_codes_and_messages(code: int, arguments: tuple[str, ...], message: str, models: Path, bad: Path) -> None:
    before = sorted(path.name for path in bad.iterdir())
    got, said, err = call(*(text.replace("{m}", str(models)).replace("{t}", str(bad)) for text in arguments))
    assert got == code, err
    assert said == ""
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert sorted(path.name for path in bad.iterdir()) == before


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of files that do not hold what they should."""
    import pyarrow
    import pyarrow.parquet

    place = tmp_path_factory.mktemp("bad")
    header = "x0,x1,x2,x3,x4,x5\n"
    texts = {
        "good.csv": header + "1,2,3,4,5,6\n",
        "good.txt": "",
        "text.csv": header + "1,2,3,4,5,6\n1,warm,3,4,5,6\n",
        "nan.csv": header + "1,2,nan,4,5,6\n",
        "few.csv": "x0,x1\n1,2\n",
        "bare.csv": "1.5,2,3,4,5,6\n1,2,3,4,5,6\n",
        "junk.npz": "PK no",
        "junk.parquet": "PAR1 no",
        "bad_parts.csv": "note\na\nq\n",
        "bad_count.csv": "note,count\na,-1\n",
        "other_ids.csv": "whole_id,note\nmon,a\ntue,b\n",
        "bad.json": '{"a": NaN}',
    }
    for name, text in texts.items():
        (place / name).write_text(text)
    x = np.ones((2, 6))
    np.savez(place / "nan.npz", x=np.where(np.arange(12).reshape(2, 6) == 8, np.nan, x))
    np.savez(place / "wide.npz", x=np.ones((2, 7)))
    np.savez(place / "objects.npz", x=np.array([{"a": 1}], dtype=object))
    np.savez(place / "other.npz", y=x)
    columns = {f"x{i}": [float("nan") if i == 0 else 1.0] for i in range(6)}
    pyarrow.parquet.write_table(pyarrow.table(columns), place / "nan.parquet")
    (place / "dir.npz").mkdir()
    (place / "broken").mkdir()
    (place / "broken" / "config.json").write_text("{")
    return place


def test_a_full_disk_leaves_the_old_file_as_it_was(models: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.csv"
    out.write_text("old")
    done = cli("sample", str(models / "notes"), "--parts", "a:1", "-n", "50000", "--out", str(out), limit=100_000)
    assert done.returncode == 1, done.stderr
    assert "cannot write" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]
    assert out.read_text() == "old"


def heed_interrupts() -> None:
    """Shells start background jobs with SIGINT ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_long_job_with_nothing_half_written(
    number: int, code: int, models: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "compvae", "sample", str(models / "notes"), "--parts", "a:1", "-n", "50000000"]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path / "x.npz")], stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts
    )
    while not any(path.stat().st_size for path in tmp_path.iterdir()):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    err = process.communicate(timeout=300)[1]
    assert process.returncode == code, err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_help_does_not_import_torch_and_every_command_shows_an_example() -> None:
    probe = "import sys; sys.argv = ['compvae', 'sample', '--help']; from compvae.cli import main\n"
    probe += "try: main()\nfinally: assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", probe], capture_output=True, check=False).returncode == 0
    for name in ("sample", "infer", "edit", "tail"):
        code, said, _ = call(name, "--help")
        assert code == 0
        assert f"compvae {name} " in " ".join(said.split())


COMMANDS = (
    "problems",
    "train",
    "sample",
    "infer",
    "edit",
    "tail",
    "evaluate",
    "report",
    "serve",
    "bench",
    "data",
    "plan",
)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_json_and_seed(name: str) -> None:
    code, said, _ = call(name, "--help")
    assert code == 0
    assert all(f"  {flag} " in said for flag in ("--help", "--json", "--seed"))


# -- junk ------------------------------------------------------------------------------------------------------------

VALUES = (
    "", "a:2", "a:2,c:1", "a", ":", "a:-1", "a:1e9", "a:99999999999", "[", "{}", "[]", "[1]", '{"a": 2}', "[[[]]]",
    "é:1", '[{"note": "a"}]', "nan", "inf", "-1", "0", "3", "1e400", "x.npz", "x.csv", "{t}/x.parquet", "{t}/no/x.npz",
    "{t}", "{t}/good.csv", "{t}/wide.npz", "{t}/junk.npz", "{t}/bad.json", "/dev/null", "/", "a\nb:1", "0.5", "peak",
    "subset", "temperature=5", "{m}/notes", "{m}/weather", "\x1b[31m:1", "{t}/" + "y" * 300 + ".csv", "🙂", "--", "-n",
)  # fmt: skip
FLAGS = ("--parts", "-n", "--out", "--seed", "--context", "--data", "--remove", "--add", "--quantile", "--threshold",
         "--event", "--method", "--json", "--noise", "--no-noise", "--nosuch")  # fmt: skip


def junk_call(rng: random.Random) -> list[str]:
    """A command with flags and values put together at random; small where it happens to be sound."""
    words = [rng.choice(("sample", "infer", "edit", "tail", "nosuch")), rng.choice(("{m}/notes", "{t}", "sines", ""))]
    for flag in rng.sample(FLAGS, rng.randint(0, 5)):
        words.append(flag)
        if flag not in ("--json", "--noise", "--no-noise"):
            words.append(rng.choice(VALUES))
    return words if "-n" in words else [*words, "-n", "3"]


def test_a_thousand_malformed_calls_give_one_line_and_leave_nothing(
    models: Path, bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)
    rng, refused = random.Random(11), 0
    before = sorted(path.name for path in bad.iterdir())
    while refused < 1000:
        words = [word.replace("{m}", str(models)).replace("{t}", str(bad)) for word in junk_call(rng)]
        code, _, err = call(*words)
        if code == 0:
            for path in (*tmp_path.iterdir(), bad / "x.parquet"):
                path.unlink(missing_ok=True)
            continue
        refused += 1
        assert code in (1, 2, 3, 5), (words, err)
        assert len(err.strip().splitlines()) == 1, (words, err)
        assert err.startswith("compvae: ")
        assert list(tmp_path.iterdir()) == [], words
        assert sorted(path.name for path in bad.iterdir()) == before, words
