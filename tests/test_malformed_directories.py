"""300 malformed model directories: each loads or is refused, and nothing is ever executed."""

import hashlib
import io
import json
import math
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import compvae
from compvae import problems
from compvae.config import CollapsedConfig, LatentConfig, LinkedConfig, ModelConfig
from compvae.errors import ModelFileError
from compvae.model import Model
from compvae.network import CompVAE, unfilled_network
from junk import PLAIN, WORDS, assert_readable, assert_refused, follow, paths_of

CONFIG, WEIGHTS = "config.json", "model.safetensors"


Files = dict[str, bytes]


def tiny_config() -> ModelConfig:
    return ModelConfig(
        parts=problems.get("sines").schema,
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


def test_a_network_that_no_memory_holds_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Model(CompVAE(tiny_config())).save(tmp_path / "model")

    def full(config: ModelConfig) -> CompVAE:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr("compvae.storage.unfilled_network", full)
    with pytest.raises(ModelFileError, match=r"config\.json asks for more memory than there is"):
        Model.load(tmp_path / "model")


def test_a_network_without_values_has_the_names_and_shapes_of_one_with_them() -> None:
    state = torch.random.get_rng_state()
    empty = unfilled_network(tiny_config()).state_dict()
    assert torch.equal(torch.random.get_rng_state(), state)  # nothing was drawn
    assert {n: t.shape for n, t in empty.items()} == {
        n: t.shape for n, t in CompVAE(tiny_config()).state_dict().items()
    }


def test_loading_a_model_does_not_import_the_compiler_of_torch() -> None:
    code = "import compvae, sys; compvae.load('sines'); sys.exit('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
