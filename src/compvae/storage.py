"""A model as a directory: config.json, model.safetensors, README.md (card).  Whoever has it can rebuild the model.

Nothing is ever unpickled.  Before a network of any size is allocated, the configuration is checked against the names
and shapes in the weights' header, so a forged config.json cannot ask for more memory than the weights beside it take.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from compvae.errors import ConfigError, ModelFileError
from compvae.files import reason, sha256_of, stage_directory, sync_directory
from compvae.network import Network, unfilled_network
from compvae.transport.config import AnyModelConfig, TransportConfig, model_config_from

__all__ = ["FORMAT_VERSION", "VERDICT", "WARNING", "Provenance", "load_network", "save_network"]

FORMAT_VERSION = 1
CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
VERDICT, WARNING = "verdict", "warning"  # notes of a run that was judged: the whole text, and one line if it lost
MAX_CONFIG_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class Provenance:
    """Where a model comes from.

    problem: name of the built-in or registered problem it was trained on, with its settings; None for other data.
    notes: anything worth telling (command, seed, steps, minutes), shown in the card.
    """

    problem: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)

    @property
    def of_paper(self) -> bool:
        """Whether the model was trained by a preset in the form of the paper."""
        return self.notes.get("preset", "").startswith("paper")


def save_network(directory: str | os.PathLike[str], network: Network, provenance: Provenance) -> Path:
    """Write the three files: the directory holds the old model or the new one, never a mix."""
    target = _path(directory)
    weights = save({name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()})
    contents = {
        "format_version": FORMAT_VERSION,
        "model": network.config.model_dump(mode="json"),
        "problem": provenance.problem,
        "settings": dict(provenance.settings),
        "notes": dict(provenance.notes),
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
    }
    files = {
        WEIGHTS: weights,
        CARD: _card(network, provenance).encode(),
        CONFIG: (json.dumps(contents, indent=1) + "\n").encode(),
    }
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        strangers = sorted(path.name for path in target.iterdir() if path.name not in files) if target.exists() else []
        if strangers:
            raise ModelFileError(f"{target} holds other files ({strangers[0]}); name an empty or new directory")
        _write(target, files)
    except OSError as error:
        raise ModelFileError(f"{target}: cannot write the model, {reason(error)}") from None
    return target


def load_network(directory: str | os.PathLike[str]) -> tuple[Network, Provenance]:
    """Rebuild the network, in evaluation mode, from its directory."""
    source = _path(directory)
    contents = _read_config(source / CONFIG)
    try:
        config = model_config_from(contents["model"], f"{source / CONFIG}, model", stored=True)
    except ConfigError as error:
        raise ModelFileError(str(error)) from None
    network = _unfilled(config, source / CONFIG)
    shapes = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    network.load_state_dict(_read_weights(source / WEIGHTS, shapes, contents["weights_sha256"]), assign=True)
    return network.eval(), Provenance(contents["problem"], contents["settings"], contents["notes"])


def _unfilled(config: AnyModelConfig, source: Path) -> Network:
    """The network in names and shapes.  source: where the configuration stands, for the complaint."""
    try:
        return unfilled_network(config)
    except (RuntimeError, MemoryError):  # what torch raises where there is not so much memory
        raise ModelFileError(f"{source} asks for more memory than there is; the file is damaged, or not ours") from None


def _path(directory: str | os.PathLike[str]) -> Path:
    if not isinstance(directory, str | os.PathLike):
        raise ModelFileError(f"a model directory is named by a text or a path, got {type(directory).__name__}")
    return Path(directory)


def _write(target: Path, files: Mapping[str, bytes]) -> None:
    """Write beside the target, then put the whole directory in its place: the old model or the new one, never a mix."""
    stage = stage_directory(target)
    old = stage.with_name(f"{stage.name}.old")
    try:
        for name, data in files.items():
            with open(stage / name, "wb") as handle:
                handle.write(data)
                handle.flush()
                os.fsync(handle.fileno())
        sync_directory(stage)
        if target.exists():
            target.replace(old)
        stage.replace(target)
        sync_directory(target.parent)
    finally:
        if old.exists() and not target.exists():
            old.replace(target)
        shutil.rmtree(stage, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _read_config(path: Path) -> dict[str, Any]:
    """config.json, its outer fields checked."""
    try:
        if path.exists() and not path.is_file():  # a pipe or a device could be read for ever
            raise ModelFileError(f"{path} is not a regular file")
        if path.stat().st_size > MAX_CONFIG_BYTES:
            raise ModelFileError(
                f"{path} has more than {MAX_CONFIG_BYTES} bytes, this is not the configuration of a model"
            )
        contents = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelFileError(f"{path}: cannot read the model's configuration, {reason(error)}") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{path} is not valid JSON: {error}") from None
    expected = {
        "format_version": int,
        "model": dict,
        "problem": str | None,
        "settings": dict,
        "notes": dict,
        "weights_sha256": str,
    }
    if not isinstance(contents, dict):
        raise ModelFileError(f"{path}: expected a JSON object, got {type(contents).__name__}")
    version = contents.get("format_version")
    if version != FORMAT_VERSION:
        raise ModelFileError(f"{path}: format_version is {version!r}, this version of compvae reads {FORMAT_VERSION}")
    for name, kind in expected.items():
        if name not in contents or not isinstance(contents[name], kind):
            raise ModelFileError(f"{path}: field {name!r} is missing or of the wrong type")
    return contents


def _read_weights(path: Path, expected: Mapping[str, tuple[int, ...]], sha256: str) -> dict[str, Tensor]:
    """The tensors, after their names, shapes and bytes were compared with what the configuration says."""
    try:
        with safe_open(path, framework="pt") as handle:
            found = {name: tuple(handle.get_slice(name).get_shape()) for name in handle.keys()}  # noqa: SIM118
            for name in sorted(expected.keys() | found.keys()):
                if expected.get(name) != found.get(name):
                    here, there = found.get(name, "nothing"), expected.get(name, "nothing")
                    raise ModelFileError(
                        f"{path}: tensor {name!r} has shape {here} but {CONFIG} asks for {there}; "
                        "the two files do not belong together"
                    )
            if sha256_of(path) != sha256:
                raise ModelFileError(
                    f"{path}: the weights are not those {CONFIG} was written with (sha256 differs); save again"
                )
            tensors = {name: handle.get_tensor(name) for name in expected}
    except (SafetensorError, OSError, RuntimeError) as error:
        raise ModelFileError(f"{path}: cannot read the model's weights, {reason(error)}") from None
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise ModelFileError(f"{path}: tensor {name!r} holds {tensor.dtype}, weights are floating-point numbers")
        if not torch.isfinite(tensor).all():
            raise ModelFileError(f"{path}: tensor {name!r} holds NaN or infinite values")
    return {name: tensor.float() for name, tensor in tensors.items()}


def _card(network: Network, provenance: Provenance) -> str:
    """The model card."""
    config = network.config
    attributes = ", ".join(f"`{a.name}`" for a in config.parts.attributes)
    parameters = sum(tensor.numel() for tensor in network.state_dict().values())
    rows = [
        ("problem", provenance.problem or "own data"),
        ("parts", attributes),
        ("x", f"shape {tuple(config.shape)}"),
        _form(config),
        ("numbers stored", f"{parameters:,}"),
        *((name, value) for name, value in provenance.notes.items() if name not in (VERDICT, WARNING)),
    ]
    verdict = provenance.notes.get(VERDICT, "").strip()
    judged = f"## Verdict\n\n{_quoted(verdict)}\n" if verdict else ""
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    return (
        "# A compvae model\n\n"
        "A programmable generative model: it samples x from p(x | parts) and infers the parts of an x.\n\n"
        f"| | |\n|---|---|\n{table}\n\n{judged}"
        '```python\nimport compvae\n\nmodel = compvae.load("path/to/this/directory")\n```\n\n'
        "Samples are only as good as the training range they were judged in; measure relED before relying on them.\n"
    )


def _quoted(verdict: str) -> str:
    """The sentences as they are, the table below them with its columns kept."""
    sentences, _, table = verdict.partition("\n\n")
    return f"{sentences}\n\n```text\n{table}\n```\n" if table else f"{sentences}\n"


def _form(config: AnyModelConfig) -> tuple[str, str]:
    """How the model is built, in one row of the card."""
    if isinstance(config, TransportConfig):
        grows = "grows with K" if config.extensive else "does not grow with K"
        return "transport", f"link {config.link}, x {grows}, {config.rank} factors a kind, {config.factors} shared"
    return "posterior, decoder, z", f"{config.posterior.kind}, {config.decoder.kind}, {config.latent.z_place}"
