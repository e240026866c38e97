"""Requests with bad intentions: strangers, other sites, bodies without end, clients that stall."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import patch

import httpx
import pytest

from calls import call
from compvae.errors import CompVAEError
from compvae.server.app import build_app
from compvae.server.catalogue import Catalogue
from compvae.server.guard import Guard
from compvae.server.hosts import Door
from compvae.server.limits import Limits
from compvae.server.running import Address
from serving import Running, running

BODY = {"model": "sines", "parts": {"3": 1}, "n": 2}
TOKEN = "open sesame"


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue.of(["sines"], Limits())


@pytest.fixture(scope="module")
def server(catalogue: Catalogue) -> Iterator[Running]:
    with running(catalogue, Limits(seconds=2.0, body_bytes=10_000)) as served:
        yield served


def post(server: Running, **headers: str) -> httpx.Response:
    return server.client.post("/api/sample", json=BODY, headers=headers)


def raw(server: Running, *pieces: bytes, half_close: bool = False) -> bytes:
    """What comes back on a connection until the server closes it."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        for piece in pieces:
            connection.sendall(piece)
        if half_close:
            connection.shutdown(socket.SHUT_WR)
        received = b""
        try:
            while chunk := connection.recv(65536):
                received += chunk
        except ConnectionResetError:
            pass
        return received


def head(*more: str, length: int | None = None) -> bytes:
    lines = ["POST /api/sample HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", *more]
    lines += [] if length is None else [f"Content-Length: {length}"]
    return "\r\n".join([*lines, "", ""]).encode()


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost@evil", "[::1", "", "10.0.0.1"])
def test_strange_names_are_refused(server: Running, host: str) -> None:
    assert post(server, host=host).status_code == 400
    assert server.client.get("/", headers={"host": host}).status_code == 400


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:99", "[::1]:8765", "LOCALHOST:1"])
def test_own_names_are_welcome(server: Running, host: str) -> None:
    assert post(server, host=host).status_code == 200


@pytest.mark.parametrize("origin", ["null", "http://evil.example", "http://127.0.0.1:1", "https://127.0.0.1.evil"])
def test_pages_of_other_sites_cannot_post(server: Running, origin: str) -> None:
    assert post(server, origin=origin).status_code == 403
    assert "access-control-allow-origin" not in server.client.get("/api/models", headers={"origin": origin}).headers
    assert post(server, **{"sec-fetch-site": "cross-site"}).status_code == 403


def test_our_own_page_can_post(server: Running) -> None:
    assert post(server, origin=server.url, **{"sec-fetch-site": "same-origin"}).status_code == 200


def test_a_token_guards_the_api_and_not_the_page(catalogue: Catalogue) -> None:
    with running(catalogue, door=Door(token=TOKEN)) as guarded:
        for given in ({}, {"authorization": "Bearer wrong"}, {"authorization": TOKEN}, {"authorization": "Bearer é"}):
            answer = guarded.client.post("/api/sample", json=BODY, headers=[(k, v.encode()) for k, v in given.items()])
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
        assert post(guarded, authorization=f"Bearer {TOKEN}").status_code == 200
        for path, status in (
            ("/", 200),
            ("/healthz", 200),
            ("/api/models", 401),
            ("/metrics", 401),
            ("/openapi.json", 401),
        ):
            assert guarded.client.get(path).status_code == status, path
        assert TOKEN not in guarded.log.getvalue()


def test_every_answer_has_the_headers(server: Running) -> None:
    for path in ("/", "/api/models", "/static/main.js", "/nowhere", "/static/../../limits.py", "/static/%2e%2e/app.py"):
        headers = server.client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"], path
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
    assert server.client.get("/static/%2e%2e/app.py").status_code == 404
    assert server.client.get("/api/sample").status_code == 405
    assert server.client.post("/api/sample", content=b"{}").status_code == 415


def test_bodies_are_bounded_chunked_or_not(server: Running) -> None:
    large = b"[" + b"1," * 10_000 + b"1]"
    as_json = {"content-type": "application/json"}
    assert server.client.post("/api/sample", content=large, headers=as_json).status_code == 413
    chunked = (large[i : i + 500] for i in range(0, len(large), 500))
    assert server.client.post("/api/sample", content=chunked, headers=as_json).status_code == 413
    assert b" 413 " in raw(server, head("Transfer-Encoding: chunked"), b"4e20\r\n" + b"a" * 20_000 + b"\r\n0\r\n\r\n")
    assert b" 413 " in raw(server, head(length=10**15))
    assert b" 400 " in raw(server, head("Content-Length: -1", length=5))


def test_clients_that_stall_are_let_go(server: Running) -> None:
    started = time.monotonic()
    assert b" 408 " in raw(server, head(length=500), b'{"model"')  # half a body
    assert raw(server, b"POST /api/sample HTT") == b""  # half a head
    assert raw(server) == b""  # nothing at all
    assert time.monotonic() - started < 15
    assert post(server).status_code == 200


def test_a_half_closed_client_gets_its_answer(server: Running) -> None:
    body = json.dumps(BODY).encode()
    assert b" 200 OK" in raw(server, head(length=len(body)), body, half_close=True)
    assert b" 200 " not in raw(server, head(length=len(body)), body[:5], half_close=True)
    with socket.create_connection(("127.0.0.1", server.port)) as connection:  # goes away before its answer
        connection.sendall(head(length=len(body)) + body)
    assert post(server).status_code == 200


def test_too_many_at_once_are_told_to_come_back(catalogue: Catalogue) -> None:
    with running(catalogue, Limits(connections=2, joined=1)) as narrow, ThreadPoolExecutor(20) as pool:
        body = {**BODY, "n": 1000}
        found = list(pool.map(lambda _: narrow.client.post("/api/sample", json=body), range(40)))
        assert {answer.status_code for answer in found} == {200, 503}
        assert all(answer.headers["retry-after"] == "1" for answer in found if answer.status_code == 503)
        assert narrow.client.get("/healthz").status_code == 200


def test_what_is_logged_and_counted(server: Running) -> None:
    server.client.get("/healthz?secret=1", headers={"authorization": "Bearer x"})
    server.client.get("/" + "a" * 5000)
    healthy, long = (json.loads(line) for line in server.log.getvalue().splitlines()[-2:])
    assert (healthy["path"], healthy["status"], healthy["method"]) == ("/healthz", 200, "GET")
    assert "secret" not in json.dumps(healthy)
    assert len(long["path"]) == 200
    text = server.client.get("/metrics").text
    assert 'compvae_requests_total{path="/healthz",status="200"}' in text
    assert "aaaa" not in text
    assert 'compvae_request_seconds_bucket{path="/healthz",le="+Inf"}' in text


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--host", "0.0.0.0"), 2, "--token"),
        (("--host", "192.0.2.1", "--token", "short"), 2, "at least 8"),
        (("--host", "not a host", "--token", "long enough"), 1, "cannot listen"),
        (("nobody",), 2, "neither a shipped model"),
        (("--port", "70000"), 2, "port"),
    ],
)
def test_the_command_refuses_what_is_not_safe(arguments: tuple[str, ...], code: int, said: str) -> None:
    found, _, told = call(
        "serve", "--no-browser", *(arguments if "--port" in arguments else ("--port", "0", *arguments))
    )
    assert found == code
    assert said in told
    assert "Traceback" not in told


def test_a_server_that_ends_breaks_off_what_takes_long() -> None:
    """Whoever waits is told so, and no thread is left computing: the process ends in order."""
    sites = [{"colour": "red", "x": 0.2, "y": -0.5}, {"colour": "blue", "x": -0.6, "y": 0.4}]
    body = {"model": "colours", "parts": sites, "event": "energy", "quantile": 0.9999}
    before = set(threading.enumerate())
    with ThreadPoolExecutor(1) as pool:
        with running(Catalogue.of(["colours"], Limits()), Limits(seconds=60)) as ending:
            url = f"{ending.url}/api/tail"
            waiting = pool.submit(httpx.post, url, json=body, timeout=100, trust_env=False)
            while "compvae_requests_active 2" not in ending.client.get("/metrics").text:  # itself, and the long one
                time.sleep(0.05)
        answer = waiting.result(timeout=30)
    assert answer.status_code == 503
    assert "the server is ending" in answer.json()["error"]
    assert not [one for one in set(threading.enumerate()) - before if one.name.startswith("compvae-")]


def test_answers_are_sent_at_once(catalogue: Catalogue) -> None:
    """Nagle's algorithm would hold the body of an answer back until the client acknowledged its head: 40 ms."""
    seen: list[int] = []

    class Watched(Guard):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                connection = send.__self__.transport.get_extra_info("socket")
                seen.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            await super().__call__(scope, receive, send)

    with patch("serving.build_app", lambda *given: Watched(*_pieces(build_app(*given)))), running(catalogue) as watched:
        assert watched.client.get("/healthz").status_code == 200
    assert seen[-1] != 0


def _pieces(guard: Guard) -> tuple[Any, ...]:
    return guard.app, guard.door, guard.limits, guard.metrics, guard.log


def test_addresses_and_what_to_open() -> None:
    with pytest.raises(CompVAEError, match="other machines"):
        Address("::").check()
    Address("127.0.0.2").check()
    Address("0.0.0.0", token="long enough").check()
    assert Address("0.0.0.0", token="a b c d e").url(5) == "http://127.0.0.1:5/#token=a%20b%20c%20d%20e"
    assert Address("::1").url(5) == "http://[::1]:5/"
    door = Address("0.0.0.0", token="long enough", allowed=("Models.Example",)).door()
    bearer = {"authorization": "Bearer long enough"}
    for host, passes in (("models.example", True), ("192.0.2.7:80", True), ("evil.example", False)):
        assert (door.refuses("GET", {"host": host, **bearer}, True) is None) == passes
