"""Serving: where to bind, how to tell it, the browser, until a signal."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import uvicorn

from compvae.errors import ConfigError, OutputError
from compvae.files import reason
from compvae.server.access import AccessLog
from compvae.server.app import build_app
from compvae.server.catalogue import Catalogue
from compvae.server.guard import Guard
from compvae.server.hosts import Door, is_loopback
from compvae.server.limits import Limits
from compvae.server.protocol import impatient

__all__ = ["Address", "bound", "serve", "server_config"]

KEEP_ALIVE = 5
BACKLOG = 128


@dataclass(frozen=True)
class Address:
    """Where the server listens, and who may speak to it."""

    host: str = "127.0.0.1"
    port: int = 8765
    token: str | None = None
    allowed: tuple[str, ...] = ()

    def check(self) -> None:
        """Complain about an address that would let strangers in."""
        if self.token is not None and (len(self.token) < 8 or not self.token.isascii() or not self.token.isprintable()):
            raise ConfigError("--token: at least 8 printable ASCII characters")
        if not is_loopback(self.host) and self.token is None:
            raise ConfigError(f"--host {self.host}: other machines could reach this server; give it a --token")

    def door(self) -> Door:
        """Who may pass."""
        names = tuple(name.lower() for name in (self.host, *self.allowed))
        return Door(names, addresses=not is_loopback(self.host), token=self.token)

    def url(self, port: int) -> str:
        """What to open; the token stands behind #, where no server and no log sees it."""
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{port}/" + ("" if self.token is None else f"#token={quote(self.token)}")


def serve(
    models: Sequence[str], address: Address, browser: bool, tell: Callable[[str], None], limits: Limits | None = None
) -> None:
    """Serve these models until SIGINT or SIGTERM."""
    address.check()
    limits = limits or Limits()
    with contextlib.closing(bound(address)) as listener:
        app = build_app(Catalogue.of(models, limits), limits, address.door(), AccessLog(sys.stderr))
        url = address.url(listener.getsockname()[1])
        tell(url)
        if browser:
            threading.Timer(0.5, webbrowser.open, [url]).start()
        uvicorn.Server(server_config(app, limits)).run(sockets=[listener])


def server_config(app: Guard, limits: Limits) -> uvicorn.Config:
    """How uvicorn runs the application."""
    return uvicorn.Config(
        app, http=impatient(limits.seconds), ws="none", lifespan="on", log_config=None, access_log=False,
        server_header=False, timeout_keep_alive=KEEP_ALIVE, timeout_graceful_shutdown=5, proxy_headers=False,
    )  # fmt: skip


def bound(address: Address) -> socket.socket:
    """A socket that listens there."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # asyncio sends at once (TCP_NODELAY) where a socket says it is TCP; else an answer waits 40 ms for the client's ACK
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address.host, address.port))
        listener.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise OutputError(f"--host {address.host} --port {address.port}: cannot listen there, {why}") from None
    return listener
