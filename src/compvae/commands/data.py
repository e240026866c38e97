"""compvae data: public meter data in the form that compvae train reads.  The only command that fetches anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from compvae.commands.options import AsJson, NoSeed, tell
from compvae.errors import ConfigError, OutputError
from compvae.files import reason

__all__ = ["data"]

CITYLEARN = "citylearn"


def data(
    name: Annotated[str, typer.Argument(help="Which data: citylearn, 17 real homes, one year, hourly.")],
    out: Annotated[Path, typer.Option(help="Directory for meters.csv, homes.csv and days.csv.")] = Path("data"),
    wheel: Annotated[
        Path | None, typer.Option(help="A wheel that is here already; its hash is checked all the same.")
    ] = None,
    seed: NoSeed = 0,
    as_json: AsJson = False,
) -> None:
    """Fetch public meter data: compvae data citylearn --out data/citylearn

    pip downloads the wheel of citylearn 2.1.2 (23 MB) into the cache, without its dependencies; its hash is checked,
    and nothing in it is installed or run.
    """
    from compvae.data.citylearn import WHEEL, unpack, verified

    if name != CITYLEARN:
        raise ConfigError(f"data {name!r} is unknown; there is {CITYLEARN}")
    source = wheel if wheel is not None else cache_directory() / WHEEL
    if wheel is None and not source.exists():
        _download(source)
    found = unpack(verified(source), out)
    document = {"data": name, "wheel": str(source), "out": str(out), **found}
    text = (
        f"{found['homes']} homes, {found['hours']:,} hours, written to {out}; train with compvae train "
        f"{out / 'meters.csv'} --profiles {out / 'homes.csv'} --context {out / 'days.csv'}"
    )
    tell(document, text, as_json)


def cache_directory() -> Path:
    """Where downloads are kept: XDG_CACHE_HOME/compvae, ~/.cache/compvae by default."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "compvae"


def _download(target: Path) -> None:
    """pip puts the wheel beside its place, without dependencies; nothing is installed."""
    import tempfile

    from compvae.data.citylearn import REQUIREMENT, verified

    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as stage:
            command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
            done = subprocess.run(
                [*command, "--disable-pip-version-check", "--dest", stage, REQUIREMENT],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            wheels = list(Path(stage).glob("*.whl"))
            if done.returncode or len(wheels) != 1:
                lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no wheel came"]
                raise OutputError(f"pip could not download {REQUIREMENT}: {lines[-1].strip()[:300]}")
            verified(wheels[0]).replace(target)
    except OSError as error:
        raise OutputError(f"{target.parent}: cannot keep the download, {reason(error)}") from None
