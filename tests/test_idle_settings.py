"""No setting is accepted and ignored: each changes the network or its training, or is refused; old files still load."""

from __future__ import annotations

import copy
import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import compvae
from compvae import problems
from compvae.config import ModelConfig, idle_settings
from compvae.errors import CheckpointError, CompVAEError, ConfigError, ModelFileError
from compvae.network import CompVAE
from compvae.noise import Noise
from compvae.presets import OWN_DATA, PRESETS, family, presets_of
from compvae.problems.source import Source
from compvae.train.runs import train_run
from compvae.train.schedule import RECIPES, Recipe
from compvae.train.settings import read_options, read_run, resolve
from compvae.train.step import optimiser_for, train_step
from dataset_files import write_kinds, write_places
from meter_files import loads, write_days, write_homes, write_long
from runs import TINY, cli, metrics_of, same, tensors_of

OTHERS: dict[str, list[Any]] = {  # values to try: none of them is a default
    "latent.w": [5], "latent.blocks": [True, False], "latent.z": [2], "latent.z_place": ["below"],
    "prior.fit": ["m_step", "gradient"], "prior.floor": [5.0], "prior.rate": [0.5], "prior.centre": [3.25],
    "prior.spread": [0.7], "prior.embedding": [5], "prior.hidden": [9],
    "posterior.trunk": ["curve", "image"], "posterior.channels": [48], "posterior.family": ["sum_controlled"],
    "posterior.embedding": [6], "posterior.embedding_noise": [0.5], "posterior.width": [24], "posterior.blocks": [1],
    "posterior.rounds": [1], "posterior.pixels": [7],
    "decoder.floor": [5.0], "decoder.trunk": ["curve", "image"], "decoder.channels": [48], "decoder.hidden": [24],
    "decoder.blocks": [5], "decoder.stem": ["added"], "decoder.link": ["joint", "pointwise", "losses", 8],
    "decoder.features": [4], "decoder.width": [24], "decoder.noise_power": [0.5], "decoder.part_noise": [True, False],
    "decoder.embedding": [5], "decoder.basis": [7], "decoder.values": [5], "decoder.pixels": [9],
    "scale": ["none", "size"], "unit": [2.5],
}  # fmt: skip
OF_Z = {"width": [12], "blocks": [3], "stem": [False]}
OF_THE_RECIPE: dict[str, list[Any]] = {
    "style": ["paper", "budget"], "steps": [77], "batch": [6], "rate": [3.3e-4], "betas": [[0.3, 0.7]], "clip": [1e-3],
    "kl_from": [0.5], "kl_until": [0.125], "m_step_from": [1.0], "average": [0.5],
    "sampled": [0.99],
}  # fmt: skip
NAMED = {  # seen in use, on a model with an encoder and losses as its link
    "posterior.z_network": {"width": 12}, "posterior.channels": 48, "decoder.width": 24, "decoder.blocks": 5,
    "prior.hidden": 9, "prior.embedding": 5,
}  # fmt: skip


def source_of(case: str, directory: Path) -> Source:
    """What the presets of this case are for."""
    if case in PRESETS:
        return problems.get(case)
    if case == "meters":
        kwh = loads(homes=10, days=12, values=24)
        options = {
            "problem": str(write_long(directory / "meters.csv", kwh)),
            "profiles": str(write_homes(directory / "homes.csv", 10)),
            "context": str(write_days(directory / "days.csv", 12)),
        }
    elif case == "places":
        options = {"problem": str(with_kinds(write_places(directory / "places")))}
    else:
        options = {"problem": str(write_kinds(directory / "kinds"))}
    return resolve(options).make_problem()


def with_kinds(directory: Path) -> Path:
    """Parts of two kinds: with one alone, blocks of kinds are one sum."""
    header, *rows = (directory / "parts.csv").read_text().splitlines()
    kinds = [f"{row},{'thin' if i % 2 else 'wide'}" for i, row in enumerate(rows)]
    (directory / "parts.csv").write_text("\n".join([f"{header},kind", *kinds]) + "\n")
    return directory


CASES = [
    (case, name)
    for case, names in {**PRESETS, **OWN_DATA}.items()
    for name in names
    if case != "households"  # its small preset is an invertible model, which has no such settings
]


def narrow(data: dict[str, Any]) -> dict[str, Any]:
    """The paper's configuration, so small that it can be built many times; the others are small."""
    if data["decoder"]["kind"] != "paper":
        return data
    image = data["decoder"]["trunk"] == "image"
    data["latent"].update(w=8, z=4)
    data["prior"]["z_network"]["width"] = 8
    data["prior"].update({"hidden": 8} if data["prior"]["kind"] == "network" else {})
    data["posterior"].update(channels=16, embedding=4, width=8)
    data["posterior"]["z_network"]["width"] = 128 if image else 8  # without a stem it is as wide as what it reads
    data["decoder"]["channels"] = 16
    return data


def leaves(data: dict[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """Every setting of a model but what the data decides, with other values for it."""
    for piece in ("latent", "prior", "posterior", "decoder"):
        for name in data[piece]:
            if name == "z_network":
                yield from ((f"{piece}.{name}.{field}", values) for field, values in OF_Z.items())
            elif f"{piece}.{name}" not in ("prior.kind", "posterior.kind", "decoder.kind"):
                yield f"{piece}.{name}", OTHERS[f"{piece}.{name}"]
    yield from ((name, OTHERS[name]) for name in ("scale", "unit"))


def changed(data: dict[str, Any], path: str, value: Any) -> dict[str, Any] | None:
    """The same with one setting changed; None where it has this value."""
    out = copy.deepcopy(data)
    *above, last = path.split(".")
    place = out
    for name in above:
        place = place[name]
    if place[last] == value:
        return None
    place[last] = value
    return out


def fingerprint(config: ModelConfig, source: Source, recipe: Recipe, rows: int = 8) -> str:
    """Of the network as it starts, and of two steps of training."""
    model = CompVAE.seeded(config, 0)
    optimiser, seen = optimiser_for(model, recipe), hashlib.sha256()
    learned = {name for name, value in model.named_parameters() if value.requires_grad}
    for step in range(2):
        noise = Noise(0, rows, step)
        result = train_step(model, optimiser, recipe, source.draw(3, noise), noise, step)
        seen.update(repr((result, sorted(learned))).encode())
        for name, value in model.state_dict().items():
            seen.update(repr((name, tuple(value.shape))).encode() + value.numpy().tobytes())
    return seen.hexdigest()


@pytest.mark.parametrize(("case", "name"), CASES)
def test_every_setting_that_a_preset_takes_changes_the_network_or_the_training(
    case: str, name: str, tmp_path: Path
) -> None:
    source = source_of(case, tmp_path)
    data = narrow(presets_of(source)[name](source).model_dump(mode="json"))
    recipe = RECIPES[family(source), name]
    before = fingerprint(ModelConfig.read(data), source, recipe)
    taken, idle = set(), set()
    for path, values in leaves(data):
        for value in values:
            other = changed(data, path, value)
            if other is None:
                continue
            try:
                after = fingerprint(ModelConfig.read(other), source, recipe)
            except ConfigError as error:
                named = ".".join(path.split(".")[:2])
                idle |= {path} if f"{named} does nothing unless" in str(error) else set()
                continue
            assert after != before, (path, value)
            taken.add(path)
    assert {"latent.w", "prior.floor", "decoder.floor", "unit"} <= taken
    assert not taken & idle
    if name == "sums":
        assert idle >= {name for name in NAMED if not name.startswith("posterior")}


@pytest.mark.parametrize(("case", "name"), CASES)
def test_every_setting_of_a_recipe_changes_the_training_or_is_refused(case: str, name: str, tmp_path: Path) -> None:
    source = source_of(case, tmp_path)
    model = narrow(presets_of(source)[name](source).model_dump(mode="json"))
    run = {"problem": source.name, "preset": name, "model": model}
    recipe = RECIPES[family(source), name].model_copy(update={"steps": 40, "batch": 8})

    def training(changes: dict[str, Any]) -> tuple[Any, ...]:
        config = read_run({**run, "recipe": {**recipe.model_dump(mode="json"), **changes}}, "options")
        steps, rows = config.recipe.steps, config.recipe.batch  # test_runs.py shows what average does
        return fingerprint(config.model, source, config.recipe, rows), steps, config.recipe.average

    before = training({})
    for field, values in OF_THE_RECIPE.items():
        for value in values:
            if getattr(recipe, field) == value:
                continue
            if (field == "kl_until" and recipe.kl_from == 1) or (
                field == "m_step_from" and model["prior"]["fit"] != "m_step"
            ):
                with pytest.raises(ConfigError, match=f"{field} does nothing unless"):
                    training({field: value})
            else:
                assert training({field: value}) != before, field


def with_losses(path: str, value: Any) -> dict[str, Any]:
    """A model of sines as plain data, with one setting changed."""
    config = OWN_DATA["tables"]["sums"](problems.get("sines"))
    found = changed(
        ModelConfig.read({**config.model_dump(mode="json"), "posterior": {"kind": "collapsed"}}).model_dump(
            mode="json"
        ),
        path,
        value,
    )
    assert found is not None
    return found


@pytest.mark.parametrize("path", NAMED)
def test_a_setting_that_does_nothing_is_refused_in_one_sentence(path: str, tmp_path: Path) -> None:
    """Before: accepted, stored, ignored."""
    model = with_losses(path, NAMED[path])
    with pytest.raises(ConfigError, match=rf"{path} does nothing unless .*; leave it out$"):
        compvae.fit("sines", out=tmp_path / "run", steps=1, threads=1, model=model)
    assert not (tmp_path / "run").exists()


def test_so_it_is_on_the_command_line(tmp_path: Path) -> None:
    def toml(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{json.dumps(k)} = {toml(v)}" for k, v in value.items()) + "}"
        return "[" + ", ".join(map(toml, value)) + "]" if isinstance(value, list) else json.dumps(value)

    (tmp_path / "run.toml").write_text(f"steps = 1\nthreads = 1\nmodel = {toml(with_losses('decoder.width', 24))}\n")
    done = cli("train", "sines", "--config", "run.toml", "--out", "run", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "decoder.width does nothing unless decoder.link is joint or pointwise; leave it out" in done.stderr


def test_settings_of_a_problem_and_of_its_truth_are_refused_with_own_data(tmp_path: Path) -> None:
    own = {"problem": str(write_kinds(tmp_path / "kinds")), "threads": 1}
    for change, word in (({"settings": {"timesteps": 3}}, "settings"), ({"watch": 50}, "watch")):
        with pytest.raises(ConfigError, match=f"{word} does nothing unless"):
            resolve({**own, **change})
    assert resolve({**own, "watch": 0}).watch == 0


def with_idle_settings(path: Path) -> None:
    """Write into a config.json what could be set until now, and did nothing."""
    contents = json.loads(path.read_text())
    run = contents.get("run", contents)
    run["model"]["prior"].update(hidden=77, embedding=5, components=0)
    run["model"]["prior"]["z_network"] = {"width": 12, "blocks": 0, "stem": True}
    run["model"]["posterior"].update(trunk="vector", channels=48)
    run["model"]["posterior"]["z_network"] = {"width": 12, "blocks": 0, "stem": True}
    if "recipe" in run:
        run["recipe"]["kl_until"] = 0.25
    path.write_text(json.dumps(contents))


def test_files_that_were_written_with_such_settings_still_load(whole: Path, tmp_path: Path) -> None:
    train_run({**TINY, "steps": 12}, tmp_path / "run")
    x = compvae.load(tmp_path / "run").sample({"3": 2}, n=4)
    for name in ("config.json", "model/config.json"):
        with_idle_settings(tmp_path / "run" / name)
    model = compvae.load(tmp_path / "run")
    assert np.array_equal(model.sample({"3": 2}, n=4), x)
    assert not idle_settings(model.network.config)
    # a run goes on, and its config.json is still a configuration for others
    train_run({}, tmp_path / "run", resume=True)
    train_run({**read_options(tmp_path / "run" / "config.json"), "threads": 1}, tmp_path / "again")
    assert same(tensors_of(tmp_path / "again"), tensors_of(tmp_path / "run"))
    assert metrics_of(tmp_path / "again") == metrics_of(tmp_path / "run")


OF_RELEASE_0_1 = {
    "z above its parts": {"latent": {"w": 3, "blocks": True, "z": 2, "z_place": "above"}},
    "mixtures as the shapes of its parts": {"prior": {"components": 4}},
    "the posterior per_part": {"posterior": {"kind": "per_part", "rounds": 2}},
}


@pytest.mark.parametrize("what", OF_RELEASE_0_1)
def test_what_release_0_1_alone_reads_says_so(what: str, whole: Path, tmp_path: Path) -> None:
    """A model directory and a run that is taken up again; before, they were read."""
    shutil.copytree(whole, tmp_path / "run")
    sentence = rf"this model has {what}, as compvae 0\.1 did; load it with compvae 0\.1, or train it again$"
    for name in ("config.json", "model/config.json"):
        contents = json.loads((tmp_path / "run" / name).read_text())
        contents.get("run", contents)["model"].update(OF_RELEASE_0_1[what])
        (tmp_path / "run" / name).write_text(json.dumps(contents))
    with pytest.raises(ModelFileError, match=sentence):
        compvae.load(tmp_path / "run")
    with pytest.raises(CheckpointError, match=sentence):
        train_run({}, tmp_path / "run", resume=True)


def test_every_error_of_this_kind_is_one_of_ours() -> None:
    with pytest.raises(CompVAEError, match="kl_until does nothing unless kl_from is below 1"):
        resolve({**TINY, "kl_until": 0.25})
    with pytest.raises(CompVAEError, match=r"m_step_from does nothing unless prior\.fit is m_step"):
        resolve({"problem": "households", "m_step_from": 0.5})
