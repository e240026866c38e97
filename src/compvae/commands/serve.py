"""compvae serve: the playground in a browser, and its API."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from compvae.commands.options import AsJson, NoSeed

__all__ = ["serve"]


def serve(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="[MODEL]...", help="Shipped names or directories; all shipped ones.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any free one.")] = 8765,
    host: Annotated[
        str, typer.Option(help="Address to listen at; beyond this machine it needs --token.")
    ] = "127.0.0.1",
    token: Annotated[
        str | None, typer.Option(envvar="COMPVAE_TOKEN", help="What every request to the API must bear.")
    ] = None,
    allow_host: Annotated[list[str] | None, typer.Option(help="Another name of this server, behind a proxy.")] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open the page.")] = False,
    seed: NoSeed = 0,
    as_json: AsJson = False,
) -> None:
    """Serve models: a page to play with, an API, everything on this machine.  Ends with Ctrl-C.

    Beside the page: /api (described by /openapi.json), /healthz, /metrics; a JSON line for each request on stderr.
    """
    from compvae.extras import need

    for package in ("fastapi", "uvicorn"):
        need(package, "serve")
    from compvae.api import shipped
    from compvae.server.running import Address, serve

    def tell(url: str) -> None:
        print(json.dumps({"url": url, "models": chosen}) if as_json else f"compvae serves at {url}", flush=True)

    chosen = models or shipped()
    serve(chosen, Address(host, port, token, tuple(allow_host or ())), not no_browser, tell)
