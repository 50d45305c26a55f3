"""register_task_type: nothing | a task type -> the task type with these settings."""

from typing import Any

import pytest

from db.errors import Forbidden, Invalid
from tests.clock import Clock
from tests.db.clerk import Clerk

DEFAULTS = {
    "lease_ms": 30_000, "retries": 3, "backoff_first_ms": 1000, "backoff_factor": 2.0, "backoff_cap_ms": 300_000,
    "backoff_jitter": 0.1, "expirations": 5, "delivery": "pull", "queue": None, "concurrency": None,
    "rate_tasks": None, "rate_ms": None,
}  # fmt: skip
CENTURY_MS = 3_155_760_000_000


def register(clerk: Clerk, **arguments: Any) -> dict[str, Any]:
    return dict(clerk.one("register_task_type", **({"name": "mail"} | arguments))._mapping)


def test_a_new_type_has_the_defaults(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    moment = clock.now()
    assert register(clerk) == DEFAULTS | {"name": "mail", "created_at": moment, "updated_at": moment}


def test_every_setting_is_kept_and_what_is_null_stays(clerk: Clerk) -> None:
    settings = {
        "lease_ms": 1, "retries": 9, "backoff_first_ms": 0, "backoff_factor": 1.5, "backoff_cap_ms": CENTURY_MS,
        "backoff_jitter": 1.0, "expirations": 0, "delivery": "celery", "queue": "fleet",
    }  # fmt: skip
    first = register(clerk, **settings)
    assert {name: first[name] for name in settings} == settings
    again = register(clerk)
    assert {name: again[name] for name in settings} == settings
    changed = register(clerk, retries=2)
    assert {name: changed[name] for name in settings} == settings | {"retries": 2}


def test_registering_again_keeps_when_it_was_made(clerk: Clerk, clock: Clock) -> None:
    first = register(clerk)
    clock.advance(60)
    again = register(clerk, retries=2)
    assert again["created_at"] == first["created_at"]
    assert again["updated_at"] > first["updated_at"]


def test_a_celery_type_has_a_queue_and_a_pulled_one_has_none(clerk: Clerk) -> None:
    assert register(clerk, delivery="celery")["queue"] == "celery"
    assert register(clerk, queue="fleet")["queue"] == "fleet"
    assert register(clerk, delivery="pull")["queue"] is None
    assert register(clerk, delivery="celery")["queue"] == "celery"


@pytest.mark.parametrize(
    "field, value",
    [
        ("name", None), ("name", ""), ("name", "x" * 256), ("name", "mail*"), ("name", "mail\u200b"),
        ("lease_ms", 0), ("lease_ms", 2_592_000_001), ("retries", 0), ("retries", -1),
        ("backoff_first_ms", -1), ("backoff_first_ms", CENTURY_MS + 1),
        ("backoff_cap_ms", -1), ("backoff_cap_ms", 2**63 - 1),
        ("backoff_factor", 0.9), ("backoff_factor", 100.1),
        ("backoff_factor", float("nan")), ("backoff_factor", float("inf")),
        ("backoff_jitter", -0.1), ("backoff_jitter", 1.1), ("backoff_jitter", float("nan")),
        ("expirations", -1), ("delivery", "push"), ("delivery", "PULL"), ("queue", ""), ("queue", "x" * 256),
    ],
)  # fmt: skip
def test_out_of_bounds_is_refused_by_field(clerk: Clerk, field: str, value: Any) -> None:
    """Case B18."""
    register(clerk)
    with clerk.refuses(Invalid, field):
        register(clerk, **({"delivery": "celery"} if field == "queue" else {}), **{field: value})


@pytest.mark.parametrize("changed", [{"retries": 2**31}, {"expirations": 1.5}, {"lease_ms": 2**63}], ids=str)
def test_what_its_type_cannot_hold_is_invalid(clerk: Clerk, changed: dict[str, Any]) -> None:
    """Case B18."""
    with clerk.refuses(Invalid):
        register(clerk, **changed)


def test_a_queue_is_for_celery_only(clerk: Clerk) -> None:
    with clerk.refuses(Invalid, "queue"):
        register(clerk, delivery="pull", queue="fleet")


def test_a_queue_for_a_pulled_type_is_refused_also_when_the_delivery_is_left_as_it_is(clerk: Clerk) -> None:
    register(clerk)
    with clerk.refuses(Invalid, "queue"):
        register(clerk, queue="fleet")


def test_a_type_that_is_not_the_callers_is_forbidden(clerk: Clerk) -> None:
    """Case B66."""
    with clerk.refuses(Forbidden, "name"):
        register(clerk, name="pay", only_types=["mail"])
    assert register(clerk, name="media.copy", only_types=["media.%"])["name"] == "media.copy"


def test_a_fleet_that_comes_is_rung_for_what_was_enqueued_before_it(clerk: Clerk) -> None:
    register(clerk, delivery="celery", queue="fleet")
    assert clerk.rings() == []
    register(clerk, delivery="pull")
    clerk.enqueue("mail")
    assert clerk.rings() == []
    register(clerk, delivery="celery", queue="fleet")
    assert clerk.rings() == [("fleet", "mail")]


def test_limits_are_kept_and_taken_away_by_zero(clerk: Clerk) -> None:
    limits = {"concurrency": 3, "rate_tasks": 100, "rate_ms": 60_000}
    none = dict.fromkeys(limits)
    assert {name: register(clerk, **limits)[name] for name in limits} == limits
    assert {name: register(clerk)[name] for name in limits} == limits
    assert {name: register(clerk, concurrency=0)[name] for name in limits} == limits | {"concurrency": None}
    assert {name: register(clerk, rate_tasks=0)[name] for name in limits} == none
    register(clerk, **limits)
    assert {name: register(clerk, rate_ms=0)[name] for name in limits} == none | {"concurrency": 3}
    assert {name: register(clerk, **dict.fromkeys(limits, 0))[name] for name in limits} == none


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        ({"concurrency": -1}, "concurrency"), ({"concurrency": 10_001}, "concurrency"),
        ({"rate_tasks": -1, "rate_ms": 1}, "rate_tasks"), ({"rate_tasks": 1_000_001, "rate_ms": 1}, "rate_tasks"),
        ({"rate_tasks": 1, "rate_ms": -1}, "rate_ms"), ({"rate_tasks": 1, "rate_ms": 2_592_000_001}, "rate_ms"),
        ({"rate_tasks": 1}, "rate_ms"), ({"rate_ms": 1}, "rate_tasks"),
        ({"rate_tasks": 1, "rate_ms": 0}, "rate_ms"), ({"rate_tasks": 0, "rate_ms": 1}, "rate_tasks"),
    ],
    ids=str,
)  # fmt: skip
def test_a_limit_that_is_out_of_bounds_or_a_half_is_refused(clerk: Clerk, limits: dict[str, int], field: str) -> None:
    register(clerk)
    with clerk.refuses(Invalid, field):
        register(clerk, **limits)
