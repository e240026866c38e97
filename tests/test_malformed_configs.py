"""300 malformed configurations, and every combination of pieces that is refused."""

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from compvae import presets, problems
from compvae.config import ModelConfig
from compvae.errors import ConfigError
from compvae.network import CompVAE
from junk import JUNK, ODDITIES, PLAIN, SCALARS, WORDS, assert_readable, assert_refused, follow, paths_of

BASES = {name: presets.preset(problems.get(name), "small").model_dump(mode="json") for name in ("sines", "colours")}


@st.composite
def mutated_configs(draw) -> dict:
    """A valid configuration with one to three places deleted or replaced."""
    config = copy.deepcopy(BASES[draw(st.sampled_from(sorted(BASES)))])
    for _ in range(draw(st.integers(1, 3))):
        paths = paths_of(config)
        if not paths:
            break
        *above, last = draw(st.sampled_from(paths))
        home = follow(config, tuple(above))
        if draw(st.integers(0, 3)) == 0:
            del home[last]
        else:
            home[last] = draw(PLAIN | WORDS | JUNK)
    return config


@st.composite
def configs_with_an_unknown_key(draw) -> tuple[dict, str]:
    config = copy.deepcopy(BASES[draw(st.sampled_from(sorted(BASES)))])
    homes = [path for path in [(), *paths_of(config)] if isinstance(follow(config, path), dict)]
    key = "new_" + draw(st.text("abcdefghij", max_size=5))
    follow(config, draw(st.sampled_from(homes)))[key] = draw(PLAIN)
    return config, key


def with_changes(base: str, changes: dict[str, object]) -> dict:
    """The configuration with dotted fields replaced."""
    config = copy.deepcopy(BASES[base])
    for dotted, value in changes.items():
        *above, last = dotted.split(".")
        follow(config, tuple(above))[last] = value
    return config


@settings(derandomize=True, deadline=None, max_examples=230)
@given(data=mutated_configs())
def test_a_mutated_configuration_is_valid_or_refused(data):
    try:
        config = ModelConfig.read(data)
    except ConfigError as error:
        assert_readable(error)
        return
    assert ModelConfig.read(config.model_dump(mode="json")) == config
    with torch.device("meta"):
        assert CompVAE(config).config == config


@settings(derandomize=True, deadline=None, max_examples=50)
@given(example=configs_with_an_unknown_key())
def test_an_unknown_setting_is_refused_by_name(example):
    config, key = example
    with pytest.raises(ConfigError, match=key) as caught:
        ModelConfig.read(config)
    assert_readable(caught.value)


@settings(derandomize=True, deadline=None, max_examples=20)
@given(data=(SCALARS | ODDITIES).filter(lambda value: not isinstance(value, dict)))
def test_something_that_is_no_mapping_of_settings_is_refused(data):
    assert_refused(ConfigError, lambda: ModelConfig.read(data))


def test_the_configurations_that_are_mutated_are_valid():
    for base in BASES.values():
        assert ModelConfig.read(base).model_dump(mode="json") == base


PLACED, NEWTON, GRAPH = {"kind": "placed"}, {"kind": "newton"}, {"kind": "graph"}


THREE_PLACES = {"attributes": [{"type": "continuous", "name": name, "low": 0, "high": 1} for name in "xyz"]}


TEMPERATURE = {"type": "continuous", "name": "T", "low": -20, "high": 40}


INCOMPATIBLE = [
    ("sines", {"shape": [65_536, 65]}, ["shape (65536, 65)", "more than 4194304 values"]),
    (
        "sines",
        {"shape": [100], "posterior": {"kind": "collapsed", "trunk": "curve"}},
        ["curve trunk of collapsed", "(200,), not (100,)"],
    ),
    ("sines", {"decoder": {"kind": "paper", "trunk": "image"}}, ["image trunk of paper", "(3, 32, 32), not (200,)"]),
    ("colours", {"posterior": {"kind": "collapsed"}}, ["posterior collapsed", "plain sum", "use newton or graph"]),
    ("colours", {"latent.blocks": True}, ["latent.blocks", "plain sum"]),
    ("sines", {"decoder": PLACED, "posterior": NEWTON, "latent.blocks": False}, ["decoder placed needs", "got 0"]),
    ("colours", {"shape": [32]}, ["decoder placed needs", "got 2 for x of shape (32,)"]),
    ("colours", {"parts": THREE_PLACES, "posterior": NEWTON}, ["decoder placed needs", "got 3"]),
    ("colours", {"latent.z": 4, "latent.z_place": "below"}, ["z below W", "plain sum", "use z_place none"]),
    ("sines", {"posterior": NEWTON, "latent.z": 4, "latent.z_place": "below"}, ["z below W needs posterior graph"]),
    ("sines", {"prior.kind": "network"}, ["m_step needs prior.kind table"]),
    (
        "sines",
        {"posterior": {"kind": "newton", "pixels": 9}},
        ["posterior.pixels needs a decoder that can decode pixels", "placed"],
    ),
    ("sines", {"context": [TEMPERATURE, TEMPERATURE]}, ["covariates of context need different names", "T, T"]),
    ("sines", {"latent.z": 4}, ["z has 4 coordinates but z_place is 'none'", "both or neither"]),
    ("sines", {"latent.z_place": "below"}, ["z has 0 coordinates but z_place is 'below'", "both or neither"]),
]


@pytest.mark.parametrize(("base", "changes", "words"), INCOMPATIBLE, ids=lambda value: str(value)[:70])
def test_pieces_that_cannot_work_together_are_refused_with_the_reason(base, changes, words):
    with pytest.raises(ConfigError) as caught:
        ModelConfig.read(with_changes(base, changes))
    assert_readable(caught.value)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"latent.w": 0}, "latent.w"),
        ({"latent.w": "3"}, "latent.w"),
        ({"latent.w": 3.5}, "latent.w"),
        ({"latent.w": True}, "latent.w"),
        ({"latent.blocks": 1}, "latent.blocks"),
        ({"shape": []}, "shape"),
        ({"shape": [1, 1, 1, 1]}, "shape"),
        ({"shape": [0]}, "shape.0"),
        ({"shape": "200"}, "shape"),
        ({"prior.floor": 0.0}, "prior.floor"),
        ({"prior.rate": math.nan}, "prior.rate"),
        ({"prior.centre": math.inf}, "prior.centre"),
        ({"decoder.kind": "huge"}, "decoder"),
        ({"posterior": {}}, "posterior"),
        ({"posterior.rounds": 65}, "posterior.newton.rounds"),
        ({"scale": "big"}, "scale"),
        ({"parts": {"attributes": []}}, "attributes"),
        ({"parts": {"attributes": [{"type": "continuous", "name": "x", "low": "0", "high": 1}]}}, "low"),
        ({"parts": {"attributes": [{"type": "continuous", "name": "x", "low": 0, "high": True}]}}, "high"),
        ({"context": [{"type": "categorical", "name": "day", "categories": ["a", "a"]}]}, "context"),
    ],
    ids=str,
)
def test_a_setting_out_of_its_range_or_of_the_wrong_type_is_refused_by_name(changes, field):
    with pytest.raises(ConfigError) as caught:
        ModelConfig.read(with_changes("sines", changes))
    assert_readable(caught.value)
    assert field in str(caught.value)


def test_a_preset_that_does_not_fit_a_problem_is_refused_with_the_reason():
    with pytest.raises(ConfigError, match=r"image trunk .* \(3, 32, 32\), not \(3, 16, 16\)") as caught:
        presets.preset(problems.get("colours", size=16), "paper")
    assert_readable(caught.value)


def test_an_unknown_preset_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match="'huge' is unknown for sines, the presets are paper, paper-narrow, small"):
        presets.preset(problems.get("sines"), "huge")
