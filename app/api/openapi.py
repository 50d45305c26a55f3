"""The OpenAPI document: FastAPI's, plus how callers authenticate, and our problems in place of FastAPI's own errors."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from app.api.problems import ProblemBody, documented

_SCHEMES: Final = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "An API key (clrc_…) or a JWT"},
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "An API key (clrc_…)"},
}
_METHODS: Final = frozenset({"get", "put", "post", "patch", "delete"})


def install(app: FastAPI) -> None:
    """Make `app.openapi` give our document; it is built once."""
    generated = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _completed(generated())
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _completed(document: dict[str, Any]) -> dict[str, Any]:
    components = document.setdefault("components", {})
    components["securitySchemes"] = _SCHEMES
    schemas = components.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    _, problem = models_json_schema([(ProblemBody, "serialization")], ref_template="#/components/schemas/{model}")
    schemas.update(problem["$defs"])
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if method in _METHODS:
                _complete(path, operation)
    return document


def _complete(path: str, operation: dict[str, Any]) -> None:
    responses = operation["responses"]
    invalid = responses.get("422", {}).get("content", {}).get("application/json")
    if invalid is not None and "HTTPValidationError" in str(invalid):
        del responses["422"]["content"]["application/json"]
    if any(one["in"] == "query" for one in operation.get("parameters", ())):
        # Of the server, before any route is known.
        responses |= {str(status): answer for status, answer in documented(414).items()}
    if "401" in responses:
        operation["security"] = [{"bearer": []}, {"apiKey": []}]
