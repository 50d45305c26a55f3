"""Property-based calls made from the OpenAPI document alone: no 500, and every answer as documented."""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from schemathesis import GenerationMode
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import positive_data_acceptance

from app.server.application import create
from app.settings import Settings
from tests.api.conftest import Served

EXAMPLES = 25

# positive_data_acceptance is left out: JSON Schema cannot say all that we refuse (unprintable names, 1.0 for 1, NUL).

DOCUMENT = create(Settings(database_url="postgresql://nobody@localhost/nowhere")).openapi()
REFUSED = [400, 401, 403, 404, 405, 406, 408, 409, 413, 414, 415, 422, 428, 429, 431, "5xx"]
CONFIG = SchemathesisConfig.from_dict({"checks": {"negative_data_rejection": {"expected-statuses": REFUSED}}})
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT, config=CONFIG)


def _takes_input(operation: dict[str, Any]) -> bool:
    return "requestBody" in operation or bool(operation.get("parameters"))


CASES = [
    (path, method, mode)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE or _takes_input(operation)
]


@pytest.mark.parametrize("path, method, mode", CASES, ids=lambda part: getattr(part, "value", part))
def test_an_operation_keeps_to_its_document(
    path: str, method: str, mode: GenerationMode, served: Served, key: str
) -> None:
    operation = SCHEMA[path][method.upper()]

    @given(case=operation.as_strategy(generation_mode=mode))
    @hypothesis_settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def explore(case: schemathesis.Case) -> None:
        if isinstance(case.body, dict) and isinstance(case.body.get("wait_ms"), int):
            case.body["wait_ms"] = min(case.body["wait_ms"], 1)  # nobody waits a minute for a generated poll
        case.call_and_validate(
            base_url=served.url, headers={"Authorization": f"Bearer {key}"}, excluded_checks=[positive_data_acceptance]
        )

    explore()
