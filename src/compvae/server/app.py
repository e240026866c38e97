"""The application: routes, thin over :mod:`compvae.server.work`, behind the guard."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

import compvae
from compvae.composing.live import LIVE_TILE
from compvae.errors import CompVAEError
from compvae.server import schemas, work
from compvae.server.access import AccessLog
from compvae.server.catalogue import Catalogue
from compvae.server.describing import describe
from compvae.server.faults import FaultError, error_body
from compvae.server.guard import Guard
from compvae.server.hosts import Door
from compvae.server.joining import run_joined
from compvae.server.lanes import Job, Lane
from compvae.server.limits import Limits
from compvae.server.metrics import Metrics
from compvae.server.reading import Asked, read_edit, read_infer, read_sample, read_tail, read_truth

__all__ = ["build_app"]

Route = TypeVar("Route", bound=Callable[..., Any])

STATIC = Path(__file__).parent / "static"
PLAIN = re.compile(r"[\w-]{1,40}", re.ASCII)  # names of fields, numbers of entries; nothing else is sent back
UNION_MARKS = ("constrained-", "function-")  # how pydantic names the members of a union, which no caller knows
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.ErrorOut} for status in (400, 401, 403, 404, 408, 413, 415, 422, 503)
}


def build_app(
    catalogue: Catalogue, limits: Limits | None = None, door: Door | None = None, log: AccessLog | None = None
) -> Guard:
    """An ASGI application that serves these models."""
    limits, metrics = limits or Limits(), Metrics()
    desk = _Desk(catalogue, limits, metrics)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        torch.set_num_threads(1)  # of each lane; answers are the same bytes for one number of threads
        desk.open()
        yield
        desk.close()

    app = FastAPI(
        title="compvae", version=compvae.__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
        description="A programmable generative model: wholes from their parts.",
    )  # fmt: skip
    _add_api(app, desk)
    describe(app, catalogue, limits)
    _add_rest(app, metrics)
    _add_errors(app)
    return Guard(app, door or Door(), limits, metrics, log or AccessLog(None))


class _Desk:
    """Hands requests to the lanes."""

    def __init__(self, catalogue: Catalogue, limits: Limits, metrics: Metrics) -> None:
        self.catalogue, self.limits = catalogue, limits
        self.observatory = work.Observatory()
        self.live = Lane("sample", limits, metrics, _run_samples)
        self.observed, self.slow = Lane("edit", limits, metrics), Lane("tail", limits, metrics)

    def open(self) -> None:
        for lane in (self.live, self.observed, self.slow):
            lane.start()

    def close(self) -> None:
        for lane in (self.live, self.observed, self.slow):
            lane.stop()

    async def sample(self, request: schemas.SampleIn) -> Response:
        asked = read_sample(request, self.catalogue, self.limits)
        # keys can be wrong, which is found out when they are used: nobody else's request may fail with them
        small = asked.served.joins and request.n <= LIVE_TILE and request.keys is None
        group = (asked.served.name, request.noise) if small else None
        job = Job(lambda: work.sample(asked, request), asked.deadline, asked.abandoned, group, (asked, request))
        return _response(await self.live.do(job))

    async def do(
        self, lane: Lane, read: Callable[..., Asked], run: Callable[..., work.Answer], request: Any
    ) -> Response:
        asked = read(request, self.catalogue, self.limits)
        return _response(await lane.do(Job(lambda: run(asked, request), asked.deadline, asked.abandoned)))


def _run_samples(jobs: Sequence[Job]) -> list[work.Answer]:
    """Small requests of one model in one run of its networks."""
    started = time.perf_counter()
    details: list[tuple[Asked, schemas.SampleIn]] = [job.detail for job in jobs]
    pieces = [
        asked.served.model.compose(asked.parts, request.keys, asked.context).piece(request.seed, request.by_part)
        for asked, request in details
    ]
    first, request = details[0]
    drawn = run_joined(first.served.model, pieces, request.noise)
    seconds = time.perf_counter() - started
    return [
        work.sample_answer(asked, request, x[: request.n], seconds)
        for (asked, request), x in zip(details, drawn, strict=True)
    ]


def _add_api(app: FastAPI, desk: _Desk) -> None:
    def post(path: str, answer: type[Any]) -> Callable[[Route], Route]:
        files: dict[str, Any] = {"content": {"application/octet-stream": {}, "text/csv": {}}}
        return app.post(path, response_model=answer, responses={200: files, **ERRORS})

    @app.get("/api/models", responses=ERRORS)
    async def models() -> schemas.ModelsOut:
        """The models that are served, with all a page needs to build itself."""
        return desk.catalogue.describe(desk.limits)

    @post("/api/sample", schemas.SampleOut)
    async def sample(request: schemas.SampleIn) -> Response:
        """Wholes from parts."""
        return await desk.sample(request)

    @post("/api/truth", schemas.SampleOut)
    async def truth(request: schemas.TruthIn) -> Response:
        """Exact wholes, where the true process is known."""
        return await desk.do(desk.observed, read_truth, work.truth, request)

    @post("/api/infer", schemas.InferOut)
    async def infer(request: schemas.InferIn) -> Response:
        """The parts of an observed whole."""
        return await desk.do(desk.observed, read_infer, desk.observatory.infer, request)

    @post("/api/edit", schemas.EditOut)
    async def edit(request: schemas.EditIn) -> Response:
        """An observed whole with other parts."""
        return await desk.do(desk.observed, read_edit, desk.observatory.edit, request)

    @post("/api/tail", schemas.TailOut)
    async def tail(request: schemas.TailIn) -> Response:
        """Extreme wholes, and how probable they are."""
        return await desk.do(desk.slow, read_tail, work.tail, request)


def _add_rest(app: FastAPI, metrics: Metrics) -> None:
    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Alive."""
        return {"status": "ok"}

    @app.get("/metrics", response_class=PlainTextResponse)
    async def counts() -> PlainTextResponse:
        """Counters, in Prometheus' text format."""
        return PlainTextResponse(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    app.mount("/static", StaticFiles(directory=STATIC), name="static")


def _response(answer: work.Answer) -> Response:
    name = {} if answer.filename is None else {"content-disposition": f'attachment; filename="{answer.filename}"'}
    return Response(answer.body, media_type=answer.media, headers=name)


def _add_errors(app: FastAPI) -> None:
    """Every answer that is not 200 is {"error": one sentence}; what came is never sent back."""

    def error(status: int, message: str, headers: Any = None) -> Response:
        return Response(error_body(message), status, headers, "application/json")

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, found: RequestValidationError) -> Response:
        first = found.errors()[0]
        steps = [str(step) for step in first["loc"] if step != "body"]
        where = ".".join(step for step in steps if PLAIN.fullmatch(step) and not step.startswith(UNION_MARKS))
        if first["type"] == "json_invalid":
            return error(422, "the body is not JSON that can be read")
        more = len(found.errors()) - 1
        also = f" (and {more} more)" if more else ""
        return error(422, f"{where}: {first['msg'].removeprefix('Value error, ')}{also}".removeprefix(": "))

    @app.exception_handler(CompVAEError)
    async def refused(_: Request, found: CompVAEError) -> Response:
        if isinstance(found, FaultError):
            return error(found.status, str(found), found.headers())
        return error(422, str(found))

    @app.exception_handler(Exception)  # raised again behind this answer, for the log
    async def unforeseen(_: Request, found: Exception) -> Response:
        return error(500, "an error of the server's own; its log says more")

    @app.exception_handler(HTTPException)
    async def http(request: Request, found: HTTPException) -> Response:
        if found.status_code == 400 and request.method == "POST":  # nested too deep, numbers too long, not UTF-8
            return error(422, "the body is not JSON that can be read")
        return error(found.status_code, str(found.detail), found.headers)
