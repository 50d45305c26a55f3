"""register_worker: nothing | a worker -> the worker, alive now."""

from typing import Any

import pytest

from db import call
from db.errors import Forbidden, Invalid, TooLarge
from tests.clock import Clock
from tests.db.clerk import Clerk


def register(clerk: Clerk, **arguments: Any) -> Any:
    return clerk.one("register_worker", **({"worker_id": "w1"} | arguments))


def test_a_worker_is_seen_with_what_it_says_of_itself(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    answer = register(
        clerk,
        kind="fleet",
        task_types=["mail", "bill"],
        versions={"mail": [1, 2]},
        details={"host": "a"},
        principal="anna",
    )
    assert tuple(answer) == ("w1", clock.now())
    (seen,) = clerk.query("select * from celeriac.worker_list")
    assert seen == {
        "worker_id": "w1", "principal": "anna", "kind": "fleet", "task_types": ["mail", "bill"],
        "versions": '{"mail": [1, 2]}', "details": '{"host": "a"}', "started_at": clock.now(),
        "heartbeat_at": clock.now(), "live": True,
    }  # fmt: skip


def test_registering_again_is_a_heartbeat_with_new_facts(clerk: Clerk, clock: Clock) -> None:
    register(clerk, task_types=["mail"])
    clock.advance(10)
    register(clerk, task_types=["bill"])
    (seen,) = clerk.query(
        "select task_types, heartbeat_at - started_at > interval '9 seconds' as beat from celeriac.worker"
    )
    assert seen == {"task_types": ["bill"], "beat": True}


def test_the_same_name_of_another_principal_is_another_worker(clerk: Clerk) -> None:
    register(clerk, principal="anna")
    register(clerk, principal="eve")
    assert clerk.scalar("select count(*) from celeriac.worker") == 2


@pytest.mark.parametrize(
    "field, value",
    [
        ("worker_id", ""), ("worker_id", None), ("worker_id", "w\n"), ("kind", None), ("kind", "robot"),
        ("task_types", [""]), ("task_types", ["mail", None]), ("task_types", ["x" * 256]),
    ],
)  # fmt: skip
def test_a_bad_argument_is_named(clerk: Clerk, field: str, value: Any) -> None:
    with clerk.refuses(Invalid, field):
        register(clerk, **{field: value})


@pytest.mark.parametrize(
    "changed",
    [
        {"details": {"x": "y" * 16_384}},
        {"versions": {"x" * 16_384: [1]}},
        {"task_types": [f"t{n}" for n in range(1001)]},
    ],
    ids=["details", "versions", "task_types"],
)
def test_a_worker_describes_itself_in_few_words(clerk: Clerk, changed: dict[str, Any]) -> None:
    with clerk.refuses(TooLarge, "details"):
        register(clerk, **changed)


def test_types_that_are_not_the_callers_are_forbidden(clerk: Clerk) -> None:
    """Case B66."""
    with clerk.refuses(Forbidden, "task_types"):
        register(clerk, task_types=["mail", "pay"], only_types=["mail"])


def test_a_nul_is_invalid(clerk: Clerk) -> None:
    """Case B13."""
    with clerk.refuses(Invalid):
        register(clerk, details=call.Json('{"host": "a\\u0000b"}'))
