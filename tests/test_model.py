"""The user's model: same bytes for the same seed, order never matters, clear errors, saved and loaded whole."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import compvae
from compvae.config import ModelConfig
from compvae.errors import CompVAEError, ModelFileError, PartsError
from compvae.model import Model
from compvae.storage import Provenance
from models import CONFIGS, WEATHER, build, invertible

OWN = Model(invertible())
COUNTED = Model(build(CONFIGS["collapsed, linked, blocks"]))
PLACED = Model(build(CONFIGS["newton, placed"]))
GRAPH = Model(build(CONFIGS["graph, paper, z below"]))
NOTES = {"a": 2, "c": 1}
SITES = [{"colour": "red", "x": 0.2, "y": -0.5}, {"colour": "green", "x": -0.7, "y": 0.1}]


@pytest.mark.parametrize(("model", "parts"), [(COUNTED, NOTES), (GRAPH, NOTES), (PLACED, SITES)])
def test_ten_samples_are_the_first_ten_of_a_thousand(model: Model, parts: object) -> None:
    many = model.sample(parts, n=1000, seed=3)
    assert many.shape == (1000, *model.shape)
    assert many.dtype == np.float32
    assert np.array_equal(model.sample(parts, n=10, seed=3), many[:10])
    assert not np.array_equal(model.sample(parts, n=10, seed=4), many[:10])


@pytest.mark.parametrize(("model", "forms"), [
    (COUNTED, [NOTES, {"c": 1, "a": 2}, [{"note": "a"}, {"note": "c"}, {"note": "a"}]]),
    (COUNTED, [NOTES, [{"note": "c"}, {"note": "a", "count": 2}]]),
    (GRAPH, [NOTES, {"c": 1, "a": 2}]),
    (PLACED, [SITES, SITES[::-1]]),
])  # fmt: skip
def test_the_order_of_the_parts_never_matters(model: Model, forms: list[object]) -> None:
    x = model.sample(forms[0], n=5)
    for form in forms[1:]:
        assert np.array_equal(model.sample(form, n=5), x)
        for name in ("w", "z", "x", "total"):
            assert np.array_equal(getattr(model.elbo(x, form), name), getattr(model.elbo(x, forms[0]), name))


def test_the_bound_of_a_row_does_not_depend_on_the_rows_beside_it() -> None:
    for model, parts in ((COUNTED, NOTES), (PLACED, SITES)):
        x = model.sample(parts, n=70)
        together, alone = model.elbo(x, parts), model.elbo(x[0], parts)
        assert isinstance(alone.total, float)
        assert np.asarray(together.total).shape == (70,)
        assert alone.total == np.asarray(together.total)[0]


def test_each_row_may_have_its_own_parts() -> None:
    x = COUNTED.sample(NOTES, n=2)
    own = COUNTED.elbo(x, compvae.PartsBatch([{"a": 1}, {"b": 9}]))
    assert np.asarray(own.w)[0] == np.asarray(COUNTED.elbo(x, {"a": 1}).w)[0]
    assert np.asarray(own.w)[1] == np.asarray(COUNTED.elbo(x, {"b": 9}).w)[1]


def test_without_noise_the_decoder_mean_comes_back() -> None:
    x, mean = COUNTED.sample(NOTES, n=20_000), COUNTED.sample(NOTES, n=20_000, noise=False)
    residual = x - mean
    assert residual.std() > 0
    assert abs(residual.mean()) < 5 * residual.std() / residual.size**0.5


def test_a_million_parts_are_sampled_like_ten() -> None:
    x = COUNTED.sample({"a": 500_000, "b": 500_000}, n=3)
    assert np.isfinite(x).all()


def test_context_reaches_the_samples_and_none_is_unknown() -> None:
    data = CONFIGS["collapsed, linked, blocks"].model_dump(mode="json")
    model = Model(build(ModelConfig.read({**data, "context": [a.model_dump() for a in WEATHER]})))
    cold, unknown = model.sample(NOTES, n=4, context={"temperature": -15}), model.sample(NOTES, n=4)
    assert not np.array_equal(cold, unknown)
    assert np.array_equal(model.sample(NOTES, n=4, context={"temperature": None}), unknown)
    x = cold
    both = model.elbo(x, NOTES, context=[{"day": "end"}, None, {"temperature": 3}, {}], shared=None)
    assert np.isfinite(both.total).all()
    with pytest.raises(PartsError, match="unknown covariate 'wind'"):
        model.sample(NOTES, n=1, context={"wind": 3})


@pytest.mark.parametrize(("call", "message"), [
    (lambda _: OWN.log_prob(np.zeros((2, 6)), NOTES, shared=[1]), "shared has 1 ids but x has 2 rows"),
    (lambda _: OWN.log_prob(np.zeros((2, 6)), NOTES, shared=5), "shared must be a list of ids"),
    (lambda _: OWN.log_prob(np.zeros((2, 6)), NOTES, shared=[[1], [2]]), "such as numbers or names"),
    (lambda m: m.sample(NOTES, n=0), "n must be a whole number of at least 1, got 0"),
    (lambda m: m.sample({"q": 1}), "'q' is unknown, it must be one of a, b, c"),
    (lambda m: m.sample(NOTES, context={"t": 1}), "this model takes none"),
    (lambda m: m.elbo(np.zeros(5), NOTES), r"x must have shape \(6,\) or \(n, 6\), got \(5,\)"),
    (lambda m: m.elbo(np.zeros((0, 6)), NOTES), r"got \(0, 6\)"),
    (lambda m: m.elbo(np.array([[0.0] * 6, [np.nan] * 6]), NOTES), r"NaN or infinite values, first at index \(1, 0\)"),
    (lambda m: m.elbo(np.full((1, 6), 1e300), NOTES), "NaN or infinite values"),
    (lambda m: m.elbo("curve", NOTES), "x must be an array of numbers, got str"),
    (lambda m: m.elbo(np.zeros((2, 6)), compvae.PartsBatch([NOTES])), "parts has 1 compositions but x has 2 rows"),
    (lambda m: m.elbo(np.zeros((2, 6)), NOTES, context=5), "context must be a dict"),
    (lambda m: m.sample(NOTES, n=10**15), "does not fit into memory"),
    (lambda m: m.sample(NOTES, seed="x"), "seed must be"),
    (lambda m: m.save(None), "named by a text or a path, got NoneType"),
    (lambda m: m.elbo(np.zeros((2, 6)), NOTES, context=[None]), "context has 1 entries but x has 2 rows"),
])  # fmt: skip
def test_bad_calls_say_what_came_and_what_is_allowed(call: object, message: str) -> None:
    with pytest.raises(CompVAEError, match=message):
        call(COUNTED)  # type: ignore[operator]


@pytest.mark.parametrize("name", CONFIGS)
def test_a_saved_model_comes_back_the_same(name: str, tmp_path: Path) -> None:
    model = Model(build(CONFIGS[name]), Provenance("sines", {"C": 2}, {"seed": "0"}))
    parts = NOTES if model.parts.countable else SITES
    again = compvae.load(model.save(tmp_path / "m"))
    assert again.config == model.config
    assert again.provenance == model.provenance
    assert np.array_equal(again.sample(parts, n=7), model.sample(parts, n=7))
    x = model.sample(parts, n=2)
    assert np.array_equal(again.elbo(x, parts).total, model.elbo(x, parts).total)


def test_the_directory_holds_a_version_weights_and_a_card_and_nothing_else(tmp_path: Path) -> None:
    directory = COUNTED.save(tmp_path / "new" / "m")
    assert sorted(path.name for path in directory.iterdir()) == ["README.md", "config.json", "model.safetensors"]
    assert [path.name for path in directory.parent.iterdir()] == ["m"]
    assert json.loads((directory / "config.json").read_text())["format_version"] == 1
    assert load_file(directory / "model.safetensors").keys() == COUNTED.network.state_dict().keys()
    assert "collapsed, linked" in (directory / "README.md").read_text()


def test_saving_over_a_model_replaces_it_and_strangers_are_not_touched(tmp_path: Path) -> None:
    COUNTED.save(tmp_path / "m")
    GRAPH.save(tmp_path / "m")
    assert compvae.load(tmp_path / "m").config == GRAPH.config
    (tmp_path / "m" / "thesis.txt").write_text("mine")
    with pytest.raises(ModelFileError, match=r"holds other files \(thesis.txt\)"):
        COUNTED.save(tmp_path / "m")
    assert compvae.load(tmp_path / "m").config == GRAPH.config
    assert (tmp_path / "m" / "thesis.txt").read_text() == "mine"


def test_a_run_directory_is_loaded_by_its_model(tmp_path: Path) -> None:
    COUNTED.save(tmp_path / "run" / "model")
    assert compvae.load(tmp_path / "run").config == COUNTED.config
    with pytest.raises(ModelFileError, match="neither a shipped model"):
        compvae.load("no-such-model")


def test_a_forged_configuration_cannot_ask_for_memory(tmp_path: Path) -> None:
    directory = COUNTED.save(tmp_path / "m")
    contents = json.loads((directory / "config.json").read_text())
    contents["model"]["posterior"]["width"] = 16_384
    contents["model"]["posterior"]["blocks"] = 64
    (directory / "config.json").write_text(json.dumps(contents))
    with pytest.raises(ModelFileError, match="do not belong together"):
        compvae.load(directory)


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    network = build(CONFIGS["collapsed, linked, blocks"])
    with torch.no_grad():
        network.decoder.loading[0, 0, 0] = float("nan")  # type: ignore[index, operator]
    with pytest.raises(ModelFileError, match="holds NaN"):
        compvae.load(Model(network).save(tmp_path / "m"))
