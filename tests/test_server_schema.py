"""Thousands of requests made from the API's own description, good and bad: no traceback, no 5xx, answers as described.

COMPVAE_SCHEMA_CASES sets how many; benchmarks/server.py asks for 10,000.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import requests
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from compvae.server.catalogue import Catalogue
from compvae.server.limits import Limits
from serving import Running, running, untrained

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what schemathesis imports
    import schemathesis
    from schemathesis import GenerationMode, checks

CASES = int(os.environ.get("COMPVAE_SCHEMA_CASES", "2100"))
SHARES = {
    "POST /api/sample": 0.3, "POST /api/truth": 0.2, "POST /api/infer": 0.2, "POST /api/edit": 0.2,
    "POST /api/tail": 0.03, "GET /api/models": 0.03, "GET /healthz": 0.02, "GET /metrics": 0.02,
}  # fmt: skip
ALLOWED = {200, 400, 404, 405, 415, 422}
SMALL = Limits(runs=4, n=40, tail_n=40, placed=4, edits=3, parts=1000, values=500, quantile=0.9)
CHECKS = [checks.content_type_conformance, checks.response_schema_conformance, checks.status_code_conformance]
PARTS = st.one_of(
    st.dictionaries(st.sampled_from([str(k) for k in range(1, 11)]), st.integers(1, 5), min_size=1, max_size=4),
    st.lists(st.fixed_dictionaries({"frequency": st.sampled_from(["1", "5", "10"])}), min_size=1, max_size=4),
)
EDITS = st.lists(st.fixed_dictionaries({"add": PARTS}), max_size=2)
KNOWN = st.fixed_dictionaries(
    {
        "parts": PARTS,
        "edits": EDITS,
        "context": st.none(),
        "keys": st.none(),
        "x": st.none(),
        "drawn": st.integers(0, 9),
    }
)  # what the model knows, so that it is reached


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    model = untrained("sines", tmp_path_factory.mktemp("models"), timesteps=10, resolution=5)
    with running(Catalogue.of([str(model)], SMALL), SMALL) as served:
        yield served


@pytest.mark.parametrize("label", list(SHARES))
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["good", "bad"])
def test_requests_from_the_description(server: Running, label: str, mode: GenerationMode) -> None:
    schema = schemathesis.openapi.from_dict(server.client.get("/openapi.json").json())
    operation = next(found.ok() for found in schema.get_all_operations() if found.ok().label == label)
    if mode is GenerationMode.NEGATIVE and label.startswith("GET"):
        pytest.skip("a GET without parameters has nothing to get wrong")
    fields = (
        schema.raw_schema["components"]["schemas"]
        .get(f"{label.rpartition('/')[2].title()}In", {})
        .get("properties", {})
    )
    seen, session = Counter[int](), requests.Session()

    @hypothesis.seed(0)
    @settings(
        max_examples=max(5, int(SHARES[label] * CASES / 2)), deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode), known=st.none() | KNOWN)
    def ask(case: Any, known: dict[str, Any] | None) -> None:
        if known is not None and mode is GenerationMode.POSITIVE and isinstance(case.body, dict):
            case.body.update({name: value for name, value in known.items() if name in fields})
        response = case.call(base_url=server.url, session=session)
        seen[response.status_code] += 1
        assert response.status_code in ALLOWED, (response.status_code, response.content[:300])
        assert b"Traceback" not in response.content
        case.validate_response(response, checks=CHECKS)

    with session:
        ask()
    if mode is GenerationMode.POSITIVE:
        assert seen[200], seen
    elif "POST" in label:
        assert seen[422], seen
    print(label, mode.value, dict(seen))
    if os.environ.get("COMPVAE_SCHEMA_TALLY"):
        with open(os.environ["COMPVAE_SCHEMA_TALLY"], "a") as tally:
            tally.write(f"{label} {mode.value} {dict(seen)}\n")


def test_the_description_names_every_route_and_model(server: Running) -> None:
    described = server.client.get("/openapi.json").json()
    assert {f"{method.upper()} {path}" for path, found in described["paths"].items() for method in found} == set(SHARES)
    fields = described["components"]["schemas"]["SampleIn"]["properties"]
    assert fields["model"]["enum"] == ["sines"]
    assert (fields["n"]["minimum"], fields["n"]["maximum"], fields["seed"]["minimum"]) == (1, SMALL.n, 0)
    counts = next(form for form in fields["parts"]["anyOf"] if form["type"] == "object")
    assert (counts["minProperties"], counts["additionalProperties"]["minimum"]) == (1, 0)
