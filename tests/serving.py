"""A server of this process, on a free port, for tests that speak HTTP or open a browser."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import uvicorn

from compvae import problems
from compvae.model import Model
from compvae.network import seeded_network
from compvae.presets import preset
from compvae.server.access import AccessLog
from compvae.server.app import build_app
from compvae.server.catalogue import Catalogue
from compvae.server.hosts import Door
from compvae.server.limits import Limits
from compvae.server.running import Address, bound, server_config
from compvae.storage import Provenance


@dataclass(frozen=True)
class Running:
    """port: where it listens.  log: what was written for each request.  client: speaks to it, from any thread."""

    port: int
    log: io.StringIO
    client: httpx.Client

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def running(catalogue: Catalogue, limits: Limits | None = None, door: Door | None = None) -> Iterator[Running]:
    """Serve until the block ends."""
    limits, log = limits or Limits(), io.StringIO()
    listener = bound(Address(port=0))
    server = uvicorn.Server(server_config(build_app(catalogue, limits, door, AccessLog(log)), limits))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = listener.getsockname()[1]
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
            yield Running(port, log, client)
    finally:
        server.should_exit = True
        thread.join(timeout=20)
        assert not thread.is_alive()


def untrained(name: str, directory: Path, kind: str = "small", **settings: object) -> Path:
    """The directory of a model of first weights of a problem.  kind: its preset."""
    problem = problems.get(name, **settings)
    provenance = Provenance(name, settings, {"preset": kind})
    return Model(seeded_network(preset(problem, kind), 0), provenance).save(directory / name)
