"""The guard: what every request passes before the application sees it, and every answer on its way out (pure ASGI).

Host, Origin and token; a body of bounded size, chunked or not, read within the time of a request; a bounded number of
requests at once; the headers of every answer; a line in the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import Any

from compvae.server.access import AccessLog
from compvae.server.faults import RETRY, error_body, too_slow
from compvae.server.hosts import Door
from compvae.server.limits import Limits
from compvae.server.metrics import Metrics

__all__ = ["Guard"]

Scope = dict[str, Any]
DRAIN_SECONDS = 0.5
ALWAYS = ("/healthz",)  # answered however many requests there are
GUARDED = ("/api/", "/metrics", "/openapi.json")  # need the token; the page does not, which holds nothing secret
ROUTES = ("/", "/healthz", "/metrics", "/openapi.json")  # counted by their path, beside those of the API
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class _GoneError(Exception):
    """The client went away before its request was complete."""


class _RefusedError(Exception):
    """An answer before the application was asked."""

    def __init__(self, status: int, message: str) -> None:
        self.status, self.message = status, message


class _Exchange:
    """One request and its answer: counts the bytes, adds the headers, knows whether either is complete."""

    def __init__(self, scope: Scope, receive: Any, send: Any) -> None:
        self.scope, self._receive, self._send = scope, receive, send
        self.received = self.sent = self.status = 0
        self.complete = False
        self.started = time.perf_counter()

    async def receive(self) -> bytes:
        """The next piece of the body."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise _GoneError
        self.complete = not message.get("more_body")
        piece: bytes = message.get("body", b"")
        self.received += len(piece)
        return piece

    async def drain(self) -> None:
        """Throw away what still comes, for a moment: a client cut off while it writes never reads the answer."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while not self.complete:
                    await self.receive()

    async def send(self, message: Any) -> None:
        """To the client."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            own = {name.lower() for name, _ in message.get("headers", [])}
            added = {**HEADERS, "cache-control": "no-store" if self.scope["path"].startswith("/api") else "no-cache"}
            extra = [(k.encode(), v.encode()) for k, v in added.items() if k.encode() not in own]
            message = {**message, "headers": [*message.get("headers", []), *extra]}
        elif message["type"] == "http.response.body":
            self.sent += len(message.get("body", b""))
        await self._send(message)

    async def answer(self, status: int, message: str, headers: Mapping[str, str]) -> None:
        """One sentence, and the end of the connection: what was not read of a body must not be read as a request."""
        body = error_body(message)
        fields = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            **headers,
            "connection": "close",
        }
        head = [(name.encode(), value.encode()) for name, value in fields.items()]
        await self.send({"type": "http.response.start", "status": status, "headers": head})
        await self.send({"type": "http.response.body", "body": body})


class Guard:
    """Wraps the application."""

    def __init__(self, app: Any, door: Door, limits: Limits, metrics: Metrics, log: AccessLog) -> None:
        self.app, self.door, self.limits, self.metrics, self.log = app, door, limits, metrics, log

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """ASGI."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # no websockets here
            await send({"type": "websocket.close", "code": 1008})
            return
        exchange = _Exchange(scope, receive, send)
        self.metrics.active += 1
        try:
            await self._within_time(exchange, receive)
        except _GoneError:
            pass
        finally:
            self.metrics.active -= 1
            self._note(exchange)

    async def _within_time(self, exchange: _Exchange, receive: Any) -> None:
        body: bytes | None = None
        try:
            async with asyncio.timeout(self.limits.seconds):
                self._admit(exchange.scope)
                body = await self._body(exchange)
                await self.app(exchange.scope, _replay(body, receive), exchange.send)
        except _RefusedError as refused:
            await exchange.drain()
            extra = {401: {"www-authenticate": "Bearer"}, 503: RETRY}.get(refused.status, {})
            await exchange.answer(refused.status, refused.message, extra)
        except TimeoutError:
            if exchange.status:  # an answer nobody reads
                raise
            if body is None:
                await exchange.answer(408, f"the request was not complete after {self.limits.seconds:g} s", {})
            else:
                await exchange.answer(503, too_slow(self.limits.seconds), RETRY)
        except asyncio.CancelledError:  # the server ends, and this request had its time to be done
            if exchange.status:
                raise
            await exchange.answer(503, "the server is ending; try again in a moment", RETRY)

    def _admit(self, scope: Scope) -> None:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refused = self.door.refuses(scope["method"], headers, scope["path"].startswith(GUARDED))
        if refused is not None:
            raise _RefusedError(*refused)
        if self.metrics.active > self.limits.connections and scope["path"] not in ALWAYS:
            raise _RefusedError(503, "too many requests at once; try again in a moment")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or (len(length) > 12 or int(length) > self.limits.body_bytes):
            raise self._too_large()
        if scope["method"] == "POST" and headers.get("content-type", "").split(";")[0].strip() != "application/json":
            raise _RefusedError(415, "the body must be JSON: Content-Type: application/json")

    async def _body(self, exchange: _Exchange) -> bytes:
        """All of it, counted as it comes."""
        chunks = []
        while not exchange.complete:
            chunks.append(await exchange.receive())
            if exchange.received > self.limits.body_bytes:
                raise self._too_large()
        return b"".join(chunks)

    def _too_large(self) -> _RefusedError:
        return _RefusedError(413, f"the body is too large, at most {self.limits.body_bytes:,} bytes are read")

    def _note(self, exchange: _Exchange) -> None:
        scope, seconds = exchange.scope, time.perf_counter() - exchange.started
        route = scope.get("route")
        path = getattr(route, "path", None) or (scope["path"] if scope["path"] in ROUTES else "other")
        self.metrics.answered(path, exchange.status, seconds)
        client = (scope.get("client") or ("",))[0]
        sizes = exchange.received, exchange.sent
        self.log.write(scope["method"], scope["path"], exchange.status, seconds, *sizes, client)


def _replay(body: bytes, receive: Any) -> Any:
    """The body that was read, then whatever the client does."""
    left = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Any:
        return left.pop() if left else await receive()

    return replay
