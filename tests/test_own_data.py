"""Training on a user's own data: recorded, resumed exactly, refused when it changed, and not needed afterwards."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import compvae
from calls import call
from compvae.data.dataset import read_dataset
from compvae.data.wholes import read_wholes
from compvae.errors import ConfigError, DataFileError
from compvae.network import CompVAE
from compvae.noise import Noise
from compvae.objective import elbo
from compvae.presets import preset
from compvae.problems.own import own_data
from compvae.train.runs import train_run
from dataset_files import VALUES, write_kinds, write_places, write_table
from meter_files import write_all
from models import CONFIGS, build, random_batch
from runs import metrics_of, same, tensors_of

TINY: dict[str, Any] = {
    "preset": "small", "steps": 6, "batch": 8, "threads": 1, "checkpoint_every": 3, "check_every": 3, "held_out": 8,
    "log_every": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_all(tmp_path_factory.mktemp("meters"))


def options(files: dict[str, Path], **more: object) -> dict[str, Any]:
    paths = {"problem": files["meters"], "profiles": files["homes"], "context": files["days"]}
    return {**{key: str(path) for key, path in paths.items()}, **TINY, "preset": "sums", **more}


def test_the_command_trains_on_meters_and_the_model_needs_them_no_more(files: dict[str, Path], tmp_path: Path) -> None:
    copies = {key: Path(shutil.copy(path, tmp_path)) for key, path in files.items()}
    out = tmp_path / "run"
    flags = ("--profiles", copies["homes"], "--context", copies["days"], "--steps", 4, "--batch", 8, "--threads", 1)
    code, text, err = call("train", copies["meters"], *flags, "--preset", "sums", "--out", out, "--json")
    assert code == 0, err
    assert "10 meters, 60 minutes, 120 complete days of 120" in err
    assert json.loads(text)["steps"] == 4

    recorded = json.loads((out / "config.json").read_text())["run"]
    assert recorded["problem"] == "meters"
    assert recorded["data"]["path"] == str(copies["meters"])
    assert set(recorded["data"]["sha256"]) == {str(path) for path in copies.values()}
    about = json.loads((out / "data.json").read_text())
    assert about["reading"]["days_kept"] == 120
    assert len(about["split"]["held_out_homes"]) == 2
    assert about["days_without_context"] == 1

    for path in copies.values():
        path.unlink()
    model = compvae.load(out)
    assert model.parts.categories == ("large", "small")
    assert model.shape == (24,)
    assert "10 meters" in (out / "model" / "README.md").read_text()
    code, text, err = call(
        "sample",
        out,
        "--parts",
        "small:3,large:1",
        "--context",
        "day_type=weekend",
        "-n",
        5,
        "--out",
        tmp_path / "x.npz",
    )
    assert code == 0, err
    edit = ("--data", tmp_path / "x.npz", "--parts", "small:3,large:1", "--remove", "small:1", "--add", "large:1")
    code, _, err = call("edit", out, *edit, "--out", tmp_path / "y.npz")
    assert code == 0, err
    code, _, err = call("evaluate", out)
    assert (code, "no such file" in err) == (2, True)  # what was held out is needed to judge by
    code, _, err = call("evaluate", shutil.copytree(out / "model", tmp_path / "model"))
    assert (code, "the directory of the run" in err) == (2, True)


def test_a_resumed_run_equals_an_uninterrupted_one(files: dict[str, Path], tmp_path: Path) -> None:
    train_run(options(files), tmp_path / "whole")
    train_run(options(files, checkpoint_every=2), tmp_path / "cut")
    for path in sorted((tmp_path / "cut" / "checkpoints").glob("*"))[-1:]:
        path.unlink()
    shutil.rmtree(tmp_path / "cut" / "model")
    train_run({}, tmp_path / "cut", resume=True)
    assert same(tensors_of(tmp_path / "whole"), tensors_of(tmp_path / "cut"))
    assert metrics_of(tmp_path / "whole")[-1] == metrics_of(tmp_path / "cut")[-1]


def test_changed_or_other_data_is_refused_on_resume(files: dict[str, Path], tmp_path: Path) -> None:
    copies = {key: Path(shutil.copy(path, tmp_path)) for key, path in files.items()}
    train_run(options(copies), tmp_path / "run")
    train_run(options(copies), tmp_path / "run", resume=True)  # the same again: nothing to do
    with pytest.raises(ConfigError, match="a resumed run keeps its data"):
        train_run({**options(copies), "problem": str(files["meters"])}, tmp_path / "run", resume=True)
    with pytest.raises(ConfigError, match="a resumed run keeps its data"):
        train_run({"problem": str(copies["meters"]), "profiles": "auto:2"}, tmp_path / "run", resume=True)
    with pytest.raises(ConfigError, match="a resumed run keeps its data"):
        train_run({"problem": "sines"}, tmp_path / "run", resume=True)
    text = copies["homes"].read_text()
    copies["homes"].write_text(text.replace("m00,small", "m00,large"))
    with pytest.raises(DataFileError, match=r"homes\.csv: the file has changed since the run began"):
        train_run({}, tmp_path / "run", resume=True)


def test_fit_takes_paths_and_bands(files: dict[str, Path], tmp_path: Path) -> None:
    run = compvae.fit(files["meters"], profiles="auto:2", out=tmp_path / "run", **{**TINY, "preset": "sums"})
    assert run.model.parts.categories == ("band1", "band2")
    assert "kWh a day" in run.model.provenance.notes["limits of the bands"]
    assert run.model.sample({"band1": 2, "band2": 1}, n=3).shape == (3, 24)
    assert [line["held_out"] for line in run.metrics if "held_out" in line]


@pytest.mark.parametrize("npz", [True, False])
def test_a_directory_of_tables_with_shared_ids(npz: bool, tmp_path: Path) -> None:
    source = own_data(str(write_kinds(tmp_path / "data", npz=npz))).open()
    config = preset(source, "small")
    assert (config.latent.z_place, config.scale) == ("none", "size")
    assert [a.name for a in config.context] == ["level", "weather"]
    batch = source.draw(99, Noise(0, 64, 0))
    assert batch.shared is not None
    assert batch.context is not None
    x = np.load(tmp_path / "data" / "wholes.npz")["x"] if npz else source.data.x
    for row, group in zip(batch.x.numpy(), batch.shared.group.tolist(), strict=True):
        at = int(np.abs(x - row).sum(1).argmin())
        np.testing.assert_allclose(x[at], row, rtol=1e-5)
        assert not source.held[at]
        first = int(np.abs(x - batch.x[batch.shared.first[group]].numpy()).sum(1).argmin())
        assert at // 3 == first // 3
    held = source.draw_held_out(Noise(0, 16, 0)).x.numpy()
    assert all(source.held[np.abs(x - row).sum(1).argmin()] for row in held)
    run = compvae.fit(tmp_path / "data", out=tmp_path / "run", **TINY)
    assert run.model.sample({"low": 2, "high": 1}, n=3, context={"weather": "warm"}).shape == (3, VALUES)


def test_neighbours_of_a_table_are_different_wholes(tmp_path: Path) -> None:
    source = own_data(str(write_kinds(tmp_path / "data"))).open()
    batch = source.draw(99, Noise(4, 200, 1))
    assert batch.shared is not None
    for group in range(batch.shared.size):
        rows = batch.x[batch.shared.group == group]
        assert len(rows.unique(dim=0)) == len(rows)
    part = source.draw(99, Noise(4, torch.arange(40, 60), 1))
    assert torch.equal(part.x, batch.x[40:60])


def test_tables_without_shared_ids_have_no_z(tmp_path: Path) -> None:
    config = preset(own_data(str(write_kinds(tmp_path / "data", shared=False))).open(), "small")
    assert (config.latent.z_place, config.context) == ("none", ())
    run = compvae.fit(tmp_path / "data", out=tmp_path / "run", **TINY)
    assert run.model.sample([{"kind": "low"}], n=2).shape == (2, VALUES)


def test_wholes_that_do_not_grow_with_their_parts_are_not_scaled(tmp_path: Path) -> None:
    directory = write_kinds(tmp_path / "data")
    x = np.load(directory / "wholes.npz")
    np.savez(directory / "wholes.npz", x=np.sin(x["x"]), whole_id=x["whole_id"])
    config = preset(own_data(str(directory)).open(), "small")
    assert config.scale == "none"
    compvae.fit(directory, out=tmp_path / "run", **TINY)


def test_parts_with_a_place(tmp_path: Path) -> None:
    directory = write_places(tmp_path / "data", 60)
    run = compvae.fit(directory, out=tmp_path / "run", **TINY)
    assert run.model.parts.continuous[0].name == "place"
    assert run.model.sample([{"place": 0.3}, {"place": 0.8}], n=2).shape == (2, VALUES)
    ids = [str(i) for i in range(60)]
    write_table(directory / "context.csv", ["whole_id", "shared_id"], [[name, "a"] for name in ids])
    with pytest.raises(DataFileError, match="shared_id needs parts whose attributes are all categorical, place is"):
        own_data(str(directory)).open()


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("parts.csv", "whole_id,kind\nw0,low\n", "the whole 'w1' has no parts"),
        ("parts.csv", "whole_id,kind\nw99,low\n", "row 2, column 'whole_id': there is no whole 'w99'"),
        ("parts.csv", "whole_id,kind,count\nw0,low,1.5\n", "row 2, column 'count': '1.5' is not a whole number"),
        ("parts.csv", "whole_id,kind\nw0,\n", "row 2, column 'kind': nothing is written"),
        ("parts.csv", "kind\nlow\n", "'whole_id' is missing"),
        ("context.csv", "whole_id,shared_id\nw0,g0\n", "the whole 'w1' has none"),
        ("context.csv", "whole_id,level\nw0,1\nw1,2\nw99,3\n", "row 4, column 'whole_id': there is no whole 'w99'"),
        ("context.csv", "whole_id,shared_id\nw0,g0\nw99,g0\n", "row 3, column 'whole_id': there is no whole 'w99'"),
        ("context.csv", "whole_id,shared_id\nw0,g0\nw0,g1\n", "row 3, column 'whole_id': the whole 'w0' stands twice"),
    ],
)
def test_wrong_tables_are_refused(file: str, text: str, words: str, tmp_path: Path) -> None:
    directory = write_kinds(tmp_path / "data")
    (directory / file).write_text(text)
    code, _, err = call("train", directory, "--out", tmp_path / "run")
    assert (code, words in err) == (3, True), err
    assert len(err.splitlines()) == 1


def with_shared_ids(directory: Path, ending: str) -> Path:
    """Wholes that have a shared id in their own file, the same as in the context."""
    write_kinds(directory, npz=ending == "npz")
    if ending == "npz":
        with np.load(directory / "wholes.npz") as found:
            groups = [f"g{i // 3}" for i in range(len(found["x"]))]
            np.savez(directory / "wholes.npz", x=found["x"], whole_id=found["whole_id"], shared_id=groups)
        return directory
    header, *lines = (directory / "wholes.csv").read_text().split()
    rows = [f"g{i // 3},{line}" for i, line in enumerate(lines)]
    (directory / "wholes.csv").write_text("\n".join([f"shared_id,{header}", *rows]) + "\n")
    return directory


@pytest.mark.parametrize("ending", ["npz", "csv"])
def test_a_shared_id_in_wholes_and_context_must_be_the_same(ending: str, tmp_path: Path) -> None:
    directory = with_shared_ids(tmp_path / "data", ending)
    assert read_dataset(directory).shared == [f"g{i // 3}" for i in range(60)]
    context = directory / "context.csv"
    context.write_text(context.read_text().replace("w4,g1,", "w4,g7,"))
    where = f"context.csv, row 6, column 'shared_id': the whole 'w4' has 'g7' here and 'g1' in {directory}"
    with pytest.raises(DataFileError, match=re.escape(f"{where}/wholes.{ending}; write the same shared_id in both")):
        read_dataset(directory)


@pytest.mark.parametrize("column", ["whole_id", "shared_id"])
def test_a_whole_without_an_id_is_refused_in_every_format(column: str, tmp_path: Path) -> None:
    """A missing shared id is nobody's: taken for an id, all wholes without one would share one factor."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    ids = {"whole_id": ["a", "b", "c"], "shared_id": ["g", "g", "h"], column: ["a", "", ""]}
    lines = [f"{whole},{shared},1" for whole, shared in zip(*ids.values(), strict=True)]
    (tmp_path / "w.csv").write_text("\n".join(["whole_id,shared_id,x0", *lines]))
    nulls = {name: [text or None for text in texts] for name, texts in ids.items()}
    parquet.write_table(pyarrow.table({**nulls, "x0": [1.0, 2.0, 3.0]}), tmp_path / "w.parquet")
    np.savez(tmp_path / "w.npz", x=np.ones((3, 1)), **{name: np.array(texts) for name, texts in ids.items()})
    for ending, place in ((".csv", "row 3, col"), (".parquet", "row 2, col"), (".npz", f"array '{column}', index 1")):
        with pytest.raises(DataFileError, match=rf"{place}.*nothing is written"):
            read_wholes(tmp_path / f"w{ending}")


def test_wholes_that_share_must_have_one_context(tmp_path: Path) -> None:
    directory = write_kinds(tmp_path / "data")
    text = (directory / "context.csv").read_text().splitlines()
    text[1] = "w0,g0,0.5,warm"
    (directory / "context.csv").write_text("\n".join(text) + "\n")
    with pytest.raises(DataFileError, match="wholes w0 and w1 have the same shared_id but another context"):
        own_data(str(directory)).open()


# -- the unit of x ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("name", CONFIGS)
def test_the_unit_changes_the_bound_by_its_logarithm_and_nothing_else(name: str) -> None:
    config = CONFIGS[name]
    batch = random_batch(config, [1, 3, 2])
    model, unit = build(config), 250.0
    other = CompVAE(config.model_copy(update={"unit": unit})).double().eval()
    other.load_state_dict(model.state_dict())
    scaled = type(batch)(batch.x * unit, batch.parts, batch.context, batch.shared)
    found, moved = (elbo(m, b, Noise(0, 3)) for m, b in ((model, batch), (other, scaled)))
    offset = batch.x[0].numel() * float(np.log(unit))
    # the cost that a climb compares contains the offset; its rounding changes, and a peak is known to the root of that
    cost = float(found.total.detach().abs().max()) + offset
    peak = (2 * batch.x[0].numel() * torch.finfo(torch.float64).eps * cost) ** 0.5
    torch.testing.assert_close(moved.w, found.w, rtol=1e-7, atol=peak)
    torch.testing.assert_close(moved.z, found.z, rtol=1e-7, atol=peak)
    torch.testing.assert_close(moved.x, found.x - offset, rtol=1e-7, atol=1e-6)


def test_data_in_another_unit_trains_alike(tmp_path: Path) -> None:
    """To the last bit, with a factor that rounds nothing; with 1,000 float32 rounds x, and training carries that on."""
    models = []
    for name, factor in (("one", 1.0), ("other", 1024.0)):
        write_kinds(tmp_path / name, factor=factor)
        models.append(compvae.fit(tmp_path / name, out=tmp_path / f"{name}_run", precision="64", **TINY).model)
    first, second = (model.sample({"low": 3, "high": 2}, n=20) for model in models)
    np.testing.assert_allclose(second, 1024 * first, rtol=1e-6)
