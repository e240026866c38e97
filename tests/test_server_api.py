"""The API: what it answers is what Python gives, alone and under load; what it cannot do it refuses in one sentence."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import compvae
from compvae.server import joining
from compvae.server.catalogue import Catalogue
from compvae.server.exact import Exact
from compvae.server.limits import Limits
from serving import Running, running, untrained

SINES: dict[str, Any] = {"model": "sines", "parts": {"3": 2, "7": 1}}
SITES = [{"colour": "red", "x": 0.2, "y": -0.5}, {"colour": "white", "x": -0.6, "y": 0.4}]
COLD = {"day_type": "weekend", "temperature": -5}


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    limits = Limits(n=400, placed=8, edits=3)
    with running(Catalogue.of(["sines", "colours", "households"], limits), limits) as served:
        yield served


@pytest.fixture(scope="module")
def homes(server: Running) -> compvae.Model:
    source = next(m["source"] for m in server.client.get("/api/models").json()["models"] if m["name"] == "households")
    return compvae.load(source)


def ask(server: Running, name: str, body: dict[str, Any]) -> httpx.Response:
    return server.client.post(f"/api/{name}", json=body)


def good(server: Running, name: str, body: dict[str, Any]) -> dict[str, Any]:
    """The answer, arrays unpacked."""
    response = ask(server, name, {**body, "encoding": "base64"})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    for key, value in answer.items():
        if isinstance(value, dict) and "base64" in value:
            answer[key] = np.frombuffer(base64.b64decode(value["base64"]), "<f4").reshape(value["shape"])
    return answer


def test_models_describe_themselves(server: Running) -> None:
    listed = {m["name"]: m for m in server.client.get("/api/models").json()["models"]}
    assert list(listed) == ["sines", "colours", "households"]
    assert listed["colours"]["attributes"][1]["name"] == "x"
    assert [c["name"] for c in listed["households"]["context"]] == ["day_type", "temperature"]
    for model in listed.values():
        problem = compvae.problems.get(model["problem"])
        for parts in (model["start"], *(example["parts"] for example in model["examples"])):
            assert problem.schema.parse(parts).size >= 2


@pytest.mark.parametrize(
    ("body", "n"),
    [(SINES, 3), (SINES, 300), ({"model": "colours", "parts": SITES}, 5), ({**SINES, "parts": {"1": 10**6}}, 2)],
)
@pytest.mark.parametrize("noise", [False, True])
def test_samples_are_those_of_python(server: Running, body: dict[str, Any], n: int, noise: bool) -> None:
    model = compvae.load(body["model"])
    asked = {**body, "n": n, "seed": 7, "noise": noise}
    assert np.array_equal(good(server, "sample", asked)["x"], model.sample(body["parts"], n, 7, noise=noise))
    by_part = good(server, "sample", {**asked, "by_part": True})["x"]
    assert np.array_equal(by_part, model.compose(body["parts"]).decode(n, 7, noise))


def test_context_and_keys_reach_the_model(server: Running, homes: compvae.Model) -> None:
    parts = {"flat": 4, "heat_pump": 2}
    asked = {"model": "households", "parts": parts, "context": COLD, "n": 4, "seed": 1, "by_part": True}
    cold = good(server, "sample", asked)["x"]
    assert np.array_equal(cold, homes.compose(parts, context=COLD).decode(4, 1, noise=True))
    assert not np.array_equal(cold, good(server, "sample", {**asked, "context": None})["x"])
    keys = [3, 1, 4, 5, 9, 2]
    assert np.array_equal(
        good(server, "sample", {**asked, "keys": keys})["x"],
        homes.compose(parts, keys, COLD).decode(4, 1, noise=True),
    )
    keyed = good(server, "sample", {"model": "colours", "parts": SITES, "by_part": True, "keys": [5, 2], "n": 2})["x"]
    assert np.array_equal(keyed, compvae.load("colours").compose(SITES, keys=[5, 2]).decode(2, noise=True))


def test_edits_are_those_of_python_with_the_exact_counterfactual(server: Running) -> None:
    parts = {"3": 1, "7": 1, "9": 1}
    edits = [{"remove": {"7": 1}}, {"add": {"5": 1}}, {"remove": {"5": 1}}]
    body = {"model": "sines", "parts": parts, "drawn": 5, "edits": edits, "n": 4, "seed": 2}
    found = good(server, "edit", body)
    problem, model = compvae.problems.get("sines"), compvae.load("sines")
    x = problem.truth(parts, 1, 5)[0]
    posterior = model.infer(x, parts)
    after = posterior.remove({"7": 1}).add({"5": 1}).remove({"5": 1})
    for name, expected in (("x", x), ("before", posterior.decode()), ("after", after.decode())):
        assert np.array_equal(found[name], expected), name
    assert np.array_equal(found["draws"], after.decode(4, 2))
    exact = problem.whole({"3": 1, "9": 1}, problem.specifics(parts, 1, 5)[:, [0, 2]])
    assert np.array_equal(found["exact"], exact)
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean((after.decode() - exact[0]) ** 2)), rel=1e-4)
    given = good(server, "edit", {**body, "drawn": None, "x": x.tolist()})
    assert np.array_equal(given["after"], found["after"])
    assert given["exact"] is None


def test_the_exact_counterfactual_redraws_what_was_added() -> None:
    problem = compvae.problems.get("sines")
    parse = problem.schema.parse
    seen = Exact(problem, parse({"3": 2, "7": 1}), 4, None)
    redrawn = seen.with_parts(parse({"3": 1}), parse({"3": 1, "5": 1}))
    assert redrawn.shape == (8, 200)
    assert len(np.unique(redrawn[:, 50])) == 8
    assert np.array_equal(seen.with_parts(parse({"3": 2, "7": 1}), parse({"3": 2, "7": 1}))[0], seen.x)


@pytest.mark.parametrize("name", ["sines", "colours", "households"])
def test_an_observed_whole_is_the_truth_that_python_draws(name: str) -> None:
    problem = compvae.problems.get(name)
    parts = {"sines": {"3": 2}, "colours": SITES, "households": {"flat": 3, "solar": 1}}[name]
    context = COLD if problem.context else None
    seen = Exact(problem, problem.schema.parse(parts), 9, context).x
    np.testing.assert_allclose(seen, problem.truth(parts, 1, 9, context)[0], rtol=1e-6, atol=1e-6)


def test_inferred_parts_are_those_of_python(server: Running) -> None:
    x = compvae.problems.get("sines").truth(SINES["parts"], 1, 3)[0]
    posterior = compvae.load("sines").infer(x, SINES["parts"])
    found = good(server, "infer", {**SINES, "drawn": 3})
    assert np.array_equal(found["alone"], np.stack([posterior.part(0), posterior.part(2)]))
    assert np.array_equal(found["whole"], posterior.decode())
    assert found["bound"]["total"] == pytest.approx(compvae.load("sines").elbo(x, SINES["parts"]).total, rel=1e-6)


def test_tails_are_those_of_python(server: Running) -> None:
    found = good(server, "tail", {**SINES, "event": "energy", "quantile": 0.9, "n": 5, "noise": False})
    expected = compvae.load("sines").tail(SINES["parts"], "energy", 0.9, 5, noise=False)
    assert np.array_equal(found["x"], expected.x)
    assert (found["probability"], found["threshold"]) == (expected.probability, expected.threshold)


@pytest.mark.parametrize("name", ["sines", "colours"])
def test_models_in_the_papers_form_are_served_as_all_others(name: str, tmp_path: Path) -> None:
    source, limits = str(untrained(name, tmp_path, "paper-narrow")), Limits(n=64, placed=8, edits=3)
    parts = SINES["parts"] if name == "sines" else SITES
    model = compvae.load(source)
    x = compvae.problems.get(name).truth(parts, 1, 3)[0]
    with running(Catalogue.of([source], limits), limits) as served:
        (told,) = served.client.get("/api/models").json()["models"]
        assert told["summary"].endswith("by the paper's networks")
        drawn = good(served, "sample", {"model": name, "parts": parts, "n": 3, "seed": 2})
        assert np.array_equal(drawn["x"], model.sample(parts, 3, 2))
        found = good(served, "infer", {"model": name, "parts": parts, "drawn": 3})
        assert np.array_equal(found["whole"], model.infer(x, parts).decode())
        tail = good(served, "tail", {"model": name, "parts": parts, "event": "energy", "quantile": 0.9, "n": 3})
        assert np.isfinite(tail["x"]).all()


def test_answers_can_be_files(server: Running) -> None:
    body = {**SINES, "n": 3, "seed": 1}
    archive = np.load(io.BytesIO(ask(server, "sample", {**body, "encoding": "npz"}).content))
    assert np.array_equal(archive["x"], compvae.load("sines").sample(SINES["parts"], 3, 1))
    assert json.loads(str(archive["parts"])) == [{"frequency": "3", "count": 2}, {"frequency": "7", "count": 1}]
    table = np.genfromtxt(
        io.StringIO(ask(server, "sample", {**body, "encoding": "csv"}).text), delimiter=",", skip_header=1
    )
    assert np.array_equal(table.astype(np.float32), archive["x"])
    listed = ask(server, "sample", body).json()["x"]
    assert np.array_equal(np.array(listed, np.float32), archive["x"])


def test_the_request_of_the_guide_is_answered(server: Running) -> None:
    guide = (Path(__file__).parent.parent / "docs" / "deploy.md").read_text()
    (body,) = re.findall(r"curl [^`]*?-d '([^']+)'", guide)
    answer = server.client.post("/api/sample", content=body, headers={"content-type": "application/json"})
    assert np.shape(answer.json()["x"]) == (5, 200)


def test_the_same_bytes_alone_and_under_load(server: Running) -> None:
    """Forty clients at once, of two models and all sizes, against the same requests one by one."""
    bodies = []
    for number in range(40):
        counts = {str(number % 10 + 1): number % 3 + 1, "7": 1}
        bodies.append(
            {"model": "sines", "parts": counts, "n": number % 40 + 1, "seed": number, "by_part": number % 2 == 0}
        )
    bodies += [{"model": "households", "parts": {"flat": k + 1}, "n": 3, "seed": k} for k in range(8)]
    strip = lambda response: {k: v for k, v in response.json().items() if k != "milliseconds"}  # noqa: E731
    alone = [strip(ask(server, "sample", body)) for body in bodies]
    with ThreadPoolExecutor(48) as pool:
        together = list(pool.map(lambda body: strip(ask(server, "sample", body)), bodies))
    assert together == alone
    text = server.client.get("/metrics").text
    counted = {line.split(" ")[0]: float(line.split(" ")[1]) for line in text.splitlines() if not line.startswith("#")}
    assert (
        counted['compvae_jobs_total{lane="sample"}'] > counted['compvae_runs_total{lane="sample"}']
    )  # some were joined


def test_a_machine_whose_rows_hang_on_their_place_joins_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model, whole = compvae.load("sines"), joining.draw_joined
    assert joining.may_join(model, 8)

    def uneven(*arguments: Any) -> list[np.ndarray]:
        drawn = whole(*arguments)
        return [np.nextafter(x, 9, dtype=np.float32) if place == 5 else x for place, x in enumerate(drawn)]

    monkeypatch.setattr(joining, "draw_joined", uneven)
    assert not joining.may_join(model, 8)
    assert not joining.may_join(compvae.load("colours"), 8)


LONG = {"colours": [SITES[0]] * 9}


@pytest.mark.parametrize(
    ("name", "body", "status", "said"),
    [
        ("sample", {**SINES, "model": "nobody"}, 404, "its models are sines"),
        ("sample", {**SINES, "n": 401}, 422, "at most 400"),
        ("sample", {**SINES, "n": 0}, 422, "greater than or equal to 1"),
        ("sample", {**SINES, "n": "3"}, 422, "valid integer"),
        ("sample", {**SINES, "parts": {}}, 422, "at least one part"),
        ("sample", {**SINES, "parts": {"11": 1}}, 422, "frequency '11' is unknown"),
        ("sample", {**SINES, "parts": {"3": 10**6 + 1}}, 422, "at most 1,000,000"),
        ("sample", {**SINES, "keys": [1]}, 422, "keys need by_part"),
        ("sample", {**SINES, "by_part": True, "keys": [1, 1]}, 422, "different numbers"),
        ("sample", {**SINES, "extra": 1}, 422, "extra: Extra inputs are not permitted"),
        ("sample", {**SINES, "context": {"t": 1}}, 422, "this model takes none"),
        ("sample", {"model": "colours", "parts": LONG["colours"]}, 422, "at most 8 parts"),
        ("sample", {"model": "colours", "parts": SITES, "by_part": True, "keys": [1, 1]}, 422, "different numbers"),
        ("infer", SINES, 422, "one of them"),
        ("infer", {**SINES, "x": [1.0, 2.0]}, 422, "x must have shape (200,)"),
        ("infer", {**SINES, "x": [[1.0], [1.0, 2.0]]}, 422, "x must be an array of numbers"),
        ("edit", {**SINES, "drawn": 1, "edits": [{}]}, 422, "remove, add or both"),
        ("edit", {**SINES, "drawn": 1, "edits": [{"remove": {"9": 1}}]}, 422, "there is none"),
        ("edit", {**SINES, "drawn": 1, "edits": [{"add": {"9": 1}}] * 4}, 422, "at most 3 steps"),
        ("tail", {**SINES, "quantile": 0.99999}, 422, "at most 0.9999"),
        ("tail", {**SINES, "event": "luck"}, 422, "event"),
        ("truth", {**SINES, "parts": {"3": 10**6}, "n": 9}, 422, "parts x n x size"),
    ],
)  # fmt: skip
def test_refusals_are_one_sentence(server: Running, name: str, body: dict[str, Any], status: int, said: str) -> None:
    response = ask(server, name, body)
    assert response.status_code == status, response.text
    assert said in response.json()["error"]
    assert "constrained" not in response.json()["error"]


@pytest.mark.parametrize(
    "text",
    [
        '{"model": "sines", "parts": {"3": NaN}}', '{"model": "sines", "parts": {"3": 1}, "x": [Infinity]}',
        '{"model": "sines", "parts": {"3": 1e999}}', "[" * 200_000, "{" * 5, "", "null", "3", '"\\ud800"',
        '{"model": "sines", "parts": {"3": ' + "9" * 5000 + "}}", '{"model": "sines", "parts": [[[[]]]]}',
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["sample", "infer"])
def test_malformed_json_is_a_readable_422(server: Running, name: str, text: str) -> None:
    response = server.client.post(f"/api/{name}", content=text, headers={"content-type": "application/json"})
    assert response.status_code == 422
    assert 5 < len(response.json()["error"]) < 300


def test_a_job_that_takes_too_long_is_given_up() -> None:
    limits = Limits(seconds=0.3)
    with running(Catalogue.of(["colours"], limits), limits) as slow:
        response = ask(slow, "tail", {"model": "colours", "parts": SITES, "quantile": 0.999})
        assert response.status_code == 503
        assert response.headers["retry-after"] == "1"
        assert slow.client.get("/healthz").json() == {"status": "ok"}


def test_a_full_queue_says_so_at_once() -> None:
    limits = Limits(queue=1)
    with running(Catalogue.of(["sines"], limits), limits) as small, ThreadPoolExecutor(24) as pool:
        body = {**SINES, "n": 1000}
        found = [response.status_code for response in pool.map(lambda _: ask(small, "sample", body), range(24))]
        assert set(found) == {200, 503}


def test_no_two_models_of_one_name(tmp_path: Path) -> None:
    again = untrained("sines", tmp_path)
    with pytest.raises(compvae.CompVAEError, match="two models have one name"):
        Catalogue.of(["sines", str(again)], Limits())
