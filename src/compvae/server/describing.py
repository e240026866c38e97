"""The description of the API (OpenAPI) says what this server takes: its models, and its own limits."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from compvae.server.catalogue import Catalogue
from compvae.server.limits import Limits

__all__ = ["describe"]


def describe(app: FastAPI, catalogue: Catalogue, limits: Limits) -> None:
    """Replace the general description by that of this server."""
    general, models = app.openapi, list(catalogue.served)
    longest = max(axis for one in catalogue.served.values() for axis in one.model.shape)

    def described() -> dict[str, Any]:
        schema = general()
        for name, request in schema["components"]["schemas"].items():
            fields = request.get("properties", {})
            if name.endswith("In"):
                _tighten(fields, models, limits.tail_n if name == "TailIn" else limits.n, limits)
                _bound_lists(fields, ("x",), longest)
            elif name == "EditStep":
                _bound_lists(fields, ("remove", "add"), limits.runs)
        return schema

    app.openapi = described  # type: ignore[method-assign]


def _tighten(fields: dict[str, Any], models: list[str], n: int, limits: Limits) -> None:
    fields["model"]["enum"] = models
    if "n" in fields:
        fields["n"]["maximum"] = n
    if "quantile" in fields:
        fields["quantile"]["maximum"] = limits.quantile
    if "edits" in fields:
        fields["edits"]["maxItems"] = limits.edits
    _bound_lists(fields, ("parts",), limits.runs)
    _bound_lists(fields, ("keys",), limits.placed)


def _bound_lists(fields: dict[str, Any], names: tuple[str, ...], most: int) -> None:
    """One entry or more, and at most so many, in these fields, whichever form they take."""
    for name in names:
        for form in fields.get(name, {}).get("anyOf", ()):
            if form.get("type") == "array":
                form |= {"minItems": 1, "maxItems": most}
            elif form.get("type") == "object":
                form |= {"minProperties": 1, "maxProperties": most}
