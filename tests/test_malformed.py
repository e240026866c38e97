"""A thousand malformed inputs: parts, configurations and model directories.  Each is refused with an error of ours.

Where a mutation may happen to leave something valid, it must then work; anything but that or a CompVAEError fails.
"""

import copy
import hashlib
import io
import json
import math
import os
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import compvae
from compvae import CompVAEError, PartsBatch, presets, problems
from compvae.compose import Model
from compvae.config import CollapsedConfig, LatentConfig, LinkedConfig, ModelConfig
from compvae.errors import ConfigError, ModelFileError, PartsError
from compvae.model import CompVAE
from compvae.parts import MAX_PARTS, Multiset

SINES, COLOURS = problems.get("sines"), problems.get("colours", size=4)
FREQUENCIES, COLOUR_NAMES = SINES.schema.categories, COLOURS.schema.categorical[0].categories


def nested(depth: int) -> list:
    """A list in a list in a list."""
    out: list = []
    for _ in range(depth):
        out = [out]
    return out


def thousands_of_digits(negative: bool) -> int:
    return -(10**5000) if negative else 10**5000


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.binary(max_size=8),
    st.complex_numbers(),
)
ODDITIES = st.one_of(
    st.builds(thousands_of_digits, st.booleans()),
    st.builds(nested, st.integers(0, 3000)),
    st.builds(object),
    st.builds(np.zeros, st.integers(0, 3)),
    st.sets(st.integers(), max_size=2),
    st.just(len),
    st.builds(lambda: iter([{"frequency": "3"}])),
)
KEYS = st.one_of(st.text(max_size=8), st.integers(), st.none(), st.tuples(st.integers()), st.floats())
JUNK = st.recursive(
    SCALARS | ODDITIES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


# -- (a) parts: 400 ----------------------------------------------------------------------------------------------

NO_COUNT = JUNK.filter(lambda value: not is_count(value))
NO_PLACE = JUNK.filter(lambda value: not is_place(value))
NO_PARTS = SCALARS | ODDITIES.filter(lambda value: not isinstance(value, list) or value)
MAPPINGS = st.dictionaries(st.sampled_from(FREQUENCIES), st.integers(1, 5), max_size=4)
SITES = st.lists(
    st.fixed_dictionaries(
        {"colour": st.sampled_from(COLOUR_NAMES), "x": st.floats(-1, 1), "y": st.floats(-1, 1)},
    ),
    max_size=4,
)


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_count(value: object) -> bool:
    return is_number(value) and 0 <= value <= MAX_PARTS and value == int(value)


def is_place(value: object) -> bool:
    return is_number(value) and -1 <= value <= 1


def spells_one_of(names: tuple[str, ...], value: object) -> bool:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
        value = str(value)
    return isinstance(value, str) and value in names


@st.composite
def broken_mappings(draw) -> dict:
    """A composition by counts with one entry that is wrong."""
    if draw(st.booleans()):
        bad_key = draw(
            (KEYS | st.builds(thousands_of_digits, st.booleans())).filter(lambda k: not spells_one_of(FREQUENCIES, k))
        )
        entry = {bad_key: draw(st.integers(1, 5))}
    else:
        entry = {draw(st.sampled_from(FREQUENCIES)): draw(NO_COUNT)}
    return {**draw(MAPPINGS), **entry}


@st.composite
def broken_sites(draw) -> list:
    """A list of sites with one that is wrong."""
    sites = draw(SITES)
    site = {"colour": "red", "x": 0.5, "y": -0.5}
    way = draw(st.sampled_from(["missing", "unknown", "colour", "place", "count", "no dict"]))
    if way == "missing":
        del site[draw(st.sampled_from(sorted(site)))]
    elif way == "unknown":
        site[draw(KEYS.filter(lambda key: key not in {"colour", "x", "y", "count"}))] = draw(JUNK)
    elif way == "colour":
        site["colour"] = draw(JUNK.filter(lambda value: not spells_one_of(COLOUR_NAMES, value)))
    elif way == "place":
        site[draw(st.sampled_from("xy"))] = draw(NO_PLACE)
    elif way == "count":
        site["count"] = draw(NO_COUNT)
    bad = draw(JUNK.filter(lambda value: not isinstance(value, dict))) if way == "no dict" else site
    sites.insert(draw(st.integers(0, len(sites))), bad)
    return sites


def assert_refused(error: type[CompVAEError], call: Callable[[], object]) -> None:
    """The call raises this error and nothing else, with one line to read."""
    with pytest.raises(error) as caught:
        call()
    assert_readable(caught.value)


def assert_readable(error: CompVAEError) -> None:
    message = str(error)
    assert message
    assert len(message.splitlines()) == 1, message
    assert "validation error for" not in message


@settings(derandomize=True, deadline=None, max_examples=120)
@given(parts=broken_mappings())
def test_a_mapping_with_a_wrong_entry_is_refused_everywhere(parts):
    assert_refused(PartsError, lambda: SINES.schema.parse(parts))
    assert_refused(PartsError, lambda: SINES.truth(parts, 1))
    assert_refused(PartsError, lambda: PartsBatch([{"3": 1}, parts]).parse(SINES.schema))


@settings(derandomize=True, deadline=None, max_examples=120)
@given(parts=broken_sites())
def test_a_list_with_a_wrong_part_is_refused_everywhere(parts):
    assert_refused(PartsError, lambda: COLOURS.schema.parse(parts))
    assert_refused(PartsError, lambda: COLOURS.truth(parts, 1))
    assert_refused(PartsError, lambda: PartsBatch([parts]).parse(COLOURS.schema))


@settings(derandomize=True, deadline=None, max_examples=40)
@given(parts=NO_PARTS)
def test_something_that_is_no_composition_is_refused_everywhere(parts):
    for problem in (SINES, COLOURS):
        assert_refused(PartsError, lambda problem=problem: problem.schema.parse(parts))
        assert_refused(PartsError, lambda problem=problem: problem.truth(parts, 1))


@pytest.mark.parametrize("problem", [SINES, COLOURS], ids=["sines", "colours"])
@settings(derandomize=True, deadline=None, max_examples=40)
@given(parts=JUNK)
def test_anything_at_all_is_a_composition_or_refused(problem, parts):
    try:
        read = problem.schema.parse(parts)
    except PartsError as error:
        assert_readable(error)
    else:
        assert isinstance(read, Multiset)
        assert read.size >= 1


@settings(derandomize=True, deadline=None, max_examples=40)
@given(compositions=JUNK)
def test_anything_at_all_is_a_batch_of_compositions_or_refused(compositions):
    try:
        read = PartsBatch(compositions).parse(SINES.schema)
    except PartsError as error:
        assert_readable(error)
    else:
        assert all(isinstance(one, Multiset) for one in read)


# -- (b) configurations: 300 -------------------------------------------------------------------------------------

BASES = {name: presets.preset(problems.get(name), "small").model_dump(mode="json") for name in ("sines", "colours")}
PLAIN = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.integers(0, 300), st.floats(), st.text(max_size=6)
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=5,
)
WORDS = st.sampled_from(
    (
        "paper", "linked", "placed", "graph", "collapsed", "per_part", "table", "network", "m_step", "gradient", "none",
        "above", "below", "size", "curve", "image", "vector", "crop", "whole", "categorical", "continuous", "added",
    )
)  # fmt: skip
Place = tuple[str | int, ...]


def paths_of(value: object, at: Place = ()) -> list[Place]:
    """Every place of a tree of dicts and lists down to depth 8, without the root."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    inside = len(at) < 8
    return [path for step, inner in steps if inside for path in [(*at, step), *paths_of(inner, (*at, step))]]


def follow(value, path: Place):
    for step in path:
        value = value[step]
    return value


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


PLACED, PER_PART, GRAPH = {"kind": "placed"}, {"kind": "per_part"}, {"kind": "graph"}
THREE_PLACES = {"attributes": [{"type": "continuous", "name": name, "low": 0, "high": 1} for name in "xyz"]}
TEMPERATURE = {"type": "continuous", "name": "T", "low": -20, "high": 40}
INCOMPATIBLE = [
    ("sines", {"shape": [65_536, 65]}, ["shape (65536, 65)", "more than 4194304 values"]),
    ("sines", {"shape": [100], "posterior.trunk": "curve"}, ["curve trunk of collapsed", "(200,), not (100,)"]),
    ("sines", {"decoder": {"kind": "paper", "trunk": "image"}}, ["image trunk of paper", "(3, 32, 32), not (200,)"]),
    ("colours", {"posterior": {"kind": "collapsed"}}, ["posterior collapsed", "plain sum", "use per_part or graph"]),
    ("colours", {"latent.blocks": True}, ["latent.blocks", "plain sum"]),
    ("sines", {"decoder": PLACED, "posterior": PER_PART, "latent.blocks": False}, ["decoder placed needs", "got 0"]),
    ("colours", {"shape": [32]}, ["decoder placed needs", "got 2 for x of shape (32,)"]),
    ("colours", {"parts": THREE_PLACES, "posterior": PER_PART}, ["decoder placed needs", "got 3"]),
    ("sines", {"posterior": {"kind": "per_part", "reader": "crop"}}, ["reader crop needs images", "use reader whole"]),
    ("colours", {"shape": [32, 32]}, ["reader crop needs images", "(32, 32)"]),
    ("colours", {"latent.z": 4, "latent.z_place": "below"}, ["z below W", "plain sum", "above or none"]),
    ("sines", {"posterior": PER_PART, "latent.z": 4, "latent.z_place": "below"}, ["z below W needs posterior graph"]),
    ("sines", {"prior.kind": "network"}, ["m_step needs prior.kind table"]),
    ("sines", {"latent.z": 4, "latent.z_place": "above"}, ["m_step is not available with z above", "use gradient"]),
    (
        "sines",
        {"prior.kind": "network", "prior.fit": "gradient", "latent.z": 4, "latent.z_place": "above"},
        ["z above the parts needs prior.kind table"],
    ),
    (
        "sines",
        {"posterior": {"kind": "per_part", "pixels": 9}},
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
        ({"posterior.blocks": 65}, "posterior.collapsed.blocks"),
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
    with pytest.raises(ConfigError, match="'huge' is unknown for sines, the presets are paper, small"):
        presets.preset(SINES, "huge")


# -- (c) model directories: 300 ----------------------------------------------------------------------------------

CONFIG, WEIGHTS = "config.json", "model.safetensors"
Files = dict[str, bytes]


def tiny_config() -> ModelConfig:
    return ModelConfig(
        parts=SINES.schema,
        shape=(8,),
        latent=LatentConfig(w=2, blocks=True),
        posterior=CollapsedConfig(width=8, blocks=0),
        decoder=LinkedConfig(features=4, width=8, blocks=0),
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Files:
    """The files of a small saved model."""
    directory = tmp_path_factory.mktemp("saved") / "model"
    Model(CompVAE(tiny_config())).save(directory)
    return {path.name: path.read_bytes() for path in directory.iterdir()}


class Bomb:
    """What a malicious pickle holds: reading it would make a directory."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


def write(directory: Path, contents: Files) -> Path:
    for name, data in contents.items():
        (directory / name).write_bytes(data)
    return directory


def loads_or_refuses(contents: Files) -> Model | None:
    """The model in these files, or None where loading refuses with an error of ours."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            return compvae.load(write(Path(directory), contents))
        except ModelFileError as error:
            assert_readable(error)
            return None


def flipped(data: bytes, flips: list[tuple[int, int]]) -> bytes:
    out = bytearray(data)
    for at, bits in flips:
        out[at % len(out)] ^= bits
    return bytes(out)


def with_hash_of(weights: bytes, files: Files) -> Files:
    """The files with other weights, and a configuration that vouches for them."""
    config = json.loads(files[CONFIG])
    config["weights_sha256"] = hashlib.sha256(weights).hexdigest()
    return {**files, WEIGHTS: weights, CONFIG: json.dumps(config).encode()}


def with_header(weights: bytes, header: object) -> bytes:
    """Safetensors with another header in front of the same numbers."""
    size = int.from_bytes(weights[:8], "little")
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + weights[8 + size :]


def header_of(weights: bytes) -> dict:
    return json.loads(weights[8 : 8 + int.from_bytes(weights[:8], "little")])


FLIPS = st.lists(st.tuples(st.integers(0, 2**20), st.integers(1, 255)), min_size=1, max_size=4)


def test_the_model_that_is_mutated_loads_and_samples(files):
    model = loads_or_refuses(files)
    assert model is not None
    assert model.sample({"3": 2}, n=3).shape == (3, 8)
    assert set(files) == {CONFIG, WEIGHTS, "README.md"}


@settings(derandomize=True, deadline=None, max_examples=60)
@given(flips=FLIPS)
def test_changed_bytes_of_the_weights_are_always_noticed(files, flips):
    weights = flipped(files[WEIGHTS], flips)
    if weights != files[WEIGHTS]:
        assert loads_or_refuses({**files, WEIGHTS: weights}) is None


@settings(derandomize=True, deadline=None, max_examples=40)
@given(flips=FLIPS)
def test_changed_bytes_of_the_header_of_weights_that_are_vouched_for_load_or_are_refused(files, flips):
    size = 8 + int.from_bytes(files[WEIGHTS][:8], "little")
    weights = flipped(files[WEIGHTS][:size], flips) + files[WEIGHTS][size:]
    loads_or_refuses(with_hash_of(weights, files))


@settings(derandomize=True, deadline=None, max_examples=60)
@given(flips=FLIPS)
def test_changed_bytes_of_the_configuration_load_or_are_refused(files, flips):
    model = loads_or_refuses({**files, CONFIG: flipped(files[CONFIG], flips)})
    assert model is None or model.sample({model.parts.categories[0]: 1}, n=1).shape == (1, *model.shape)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(name=st.sampled_from([CONFIG, WEIGHTS]), share=st.floats(0, 1, exclude_max=True), tail=st.binary(max_size=20))
def test_truncated_files_are_refused(files, name, share, tail):
    length = int(share * (len(files[name]) - 2))
    cut = files[name][:length] + tail.replace(b"}", b"")
    assert loads_or_refuses({**files, name: cut}) is None


@settings(derandomize=True, deadline=None, max_examples=60)
@given(data=st.data())
def test_a_mutated_field_of_the_configuration_loads_or_is_refused(files, data):
    config = json.loads(files[CONFIG])
    *above, last = data.draw(st.sampled_from(paths_of(config)))
    home = follow(config, tuple(above))
    if data.draw(st.booleans()):
        home[last] = data.draw(PLAIN | WORDS)
    else:
        del home[last]
    model = loads_or_refuses({**files, CONFIG: json.dumps(config).encode()})
    assert model is None or isinstance(model.config, ModelConfig)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(data=st.data())
def test_a_mutated_header_of_the_weights_loads_or_is_refused(files, data):
    header = header_of(files[WEIGHTS])
    *above, last = data.draw(st.sampled_from(paths_of(header)))
    dtypes = st.sampled_from(["F16", "BF16", "F64", "I32", "U8", "BOOL", "C64", "F8_E4M3", "I64", "F32"])
    follow(header, tuple(above))[last] = data.draw(PLAIN | dtypes)
    model = loads_or_refuses(with_hash_of(with_header(files[WEIGHTS], header), files))
    assert model is None or model.sample({"3": 1}, n=1).shape == (1, 8)


@pytest.mark.parametrize("dtype", ["F32", "I32", "U32"])
def test_numbers_of_another_type_and_the_same_width_load_as_numbers_or_are_refused(files, dtype):
    header = header_of(files[WEIGHTS])
    for entry in header.values():
        if "dtype" in entry:
            entry["dtype"] = dtype
    model = loads_or_refuses(with_hash_of(with_header(files[WEIGHTS], header), files))
    assert model is None or all(tensor.dtype == torch.float32 for tensor in model.network.state_dict().values())
    assert dtype != "F32" or model is not None


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_that_are_not_finite_are_refused(files, value):
    size = int.from_bytes(files[WEIGHTS][:8], "little")
    numbers = np.frombuffer(files[WEIGHTS][8 + size :], np.float32).copy()
    numbers[len(numbers) // 2] = value
    weights = files[WEIGHTS][: 8 + size] + numbers.tobytes()
    with tempfile.TemporaryDirectory() as directory:
        write(Path(directory), with_hash_of(weights, files))
        with pytest.raises(ModelFileError, match="holds NaN or infinite"):
            compvae.load(directory)


def test_weights_of_another_configuration_are_refused_by_the_name_of_a_tensor(files):
    config = json.loads(files[CONFIG])
    config["model"]["decoder"]["width"] = 16_384
    with tempfile.TemporaryDirectory() as directory:
        write(Path(directory), {**files, CONFIG: json.dumps(config).encode()})
        with pytest.raises(
            ModelFileError, match=r"tensor 'decoder.* has shape .* the two files do not belong together"
        ):
            compvae.load(directory)


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
@pytest.mark.parametrize("replacement", ["nothing", "directory", "empty file", "broken link", "link to itself"])
def test_a_missing_or_replaced_file_is_refused_by_name(files, tmp_path, name, replacement):
    path = write(tmp_path, files) / name
    path.unlink()
    if replacement == "directory":
        path.mkdir()
    elif replacement == "empty file":
        path.touch()
    elif "link" in replacement:
        path.symlink_to(path if replacement == "link to itself" else tmp_path / "nowhere")
    with pytest.raises(ModelFileError) as caught:
        compvae.load(tmp_path)
    assert name in str(caught.value)
    assert_readable(caught.value)


@pytest.mark.parametrize("protocol", [0, 2, 5, "torch"])
@pytest.mark.parametrize("name", [CONFIG, WEIGHTS, "pytorch_model.bin", "model.pt", "README.md"])
def test_a_pickle_is_never_executed(files, tmp_path, name, protocol):
    marker, directory = tmp_path / "marker", tmp_path / "model"
    directory.mkdir()
    buffer = io.BytesIO()
    torch.save(Bomb(marker), buffer) if protocol == "torch" else pickle.dump(Bomb(marker), buffer, protocol=protocol)
    contents = {**files, name: buffer.getvalue()}
    write(directory, with_hash_of(buffer.getvalue(), contents) if name == WEIGHTS else contents)
    if name in (CONFIG, WEIGHTS):
        assert_refused(ModelFileError, lambda: compvae.load(directory))
    else:
        compvae.load(directory)
    assert not marker.exists()


def test_the_pickle_of_these_tests_would_leave_its_marker(tmp_path):
    pickle.loads(pickle.dumps(Bomb(tmp_path / "marker")))  # noqa: S301
    assert (tmp_path / "marker").exists()


@pytest.mark.parametrize(
    "config",
    [
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
        b'{"format_version": 1, "model": ' + b'{"parts":' * 900 + b"1" + b"}" * 901,
        b'{"format_version": 1' + b"0" * 5000 + b"}",
        b"{}",
        b"null",
        b"\xff\xfe",
        b"\x00" * 100,
        b" " * (17 * 1024 * 1024),
        b'{"format_version": 2}',
        b'{"format_version": 1}',
        b'{"format_version": NaN}',
    ],
    ids=[
        "open brackets", "deep lists", "deep objects", "deep model", "long number", "empty object", "null", "no utf-8",
        "zeros", "too large", "later version", "fields missing", "nan version",
    ],
)  # fmt: skip
def test_a_configuration_that_is_no_configuration_is_refused(files, config):
    assert loads_or_refuses({**files, CONFIG: config}) is None


@pytest.mark.parametrize("name", ["no such model", "", "a\0b", "a" * 5000, None, 5, b"bytes", 2.5])
def test_a_name_that_is_no_model_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_refused(ModelFileError, lambda: compvae.load(name))


def test_a_file_instead_of_a_directory_is_refused(tmp_path):
    (tmp_path / "model.bin").write_bytes(b"x")
    with pytest.raises(ModelFileError, match=r"neither a shipped model .* nor a directory"):
        compvae.load(tmp_path / "model.bin")
