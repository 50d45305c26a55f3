"""What handlers take and return, and what they may do to an attempt: it fails, and the worker goes on."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, TypedDict

import psycopg
import pytest
from pydantic import BaseModel, Field, field_validator

from celeriac import Context, Fatal, Invalid, Retry, RetryPolicy, _faults, task
from tests.durable.carrier import Carrier

Effect = Callable[..., str]
Effects = Callable[[], list[str]]

ONCE = RetryPolicy(attempts=1)


class Order(BaseModel):
    number: int
    card: str = Field(min_length=3)

    @field_validator("card")
    @classmethod
    def known(cls, card: str) -> str:
        if card.startswith("bad"):
            raise ValueError(f"{card} is unknown")
        return card


@dataclass
class Copy:
    source: str
    parts: int = 1


class Sizes(TypedDict):
    bytes: int


def test_an_input_is_what_its_annotation_says(carrier: Carrier) -> None:
    @task("order")
    def order(ctx: Context, order: Order) -> Order:
        return order.model_copy(update={"number": order.number + 1})

    @task("copy")
    def copy(ctx: Context, copy: Copy) -> Sizes:
        return {"bytes": len(copy.source) * copy.parts}

    @task("plain")
    def plain(ctx: Context, input: dict[str, Any]) -> dict[str, Any]:
        return {**input, **ctx.variables}

    carrier.install(order, copy, plain)
    ids = [
        carrier.enqueue(order, Order(number=1, card="visa")),
        carrier.enqueue(order, {"number": "1", "card": "visa"}),
        carrier.enqueue(copy, Copy("abc", 2)),
        carrier.enqueue(copy, {"source": "abc"}),
        carrier.enqueue(plain, {"any": 1}),
    ]
    carrier.run()
    assert [carrier.result(task_id) for task_id in ids] == [
        {"number": 2, "card": "visa"},
        {"number": 2, "card": "visa"},
        {"bytes": 6},
        {"bytes": 3},
        {"any": 1},
    ]


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"number": "secret", "card": "visa"}, "number: Input should be a valid integer"),
        ({"card": "visa"}, "number: Field required"),
        ({"number": 1, "card": "bad secret"}, "card: was refused by its validator"),
    ],
)
def test_an_input_that_is_refused_fails_for_good_and_names_the_field_never_the_value(
    carrier: Carrier, variables: dict[str, Any], says: str
) -> None:
    @task("order")
    def order(ctx: Context, order: Order) -> None:
        raise AssertionError("never called")

    @task("order")
    def loose(ctx: Context, input: dict[str, Any]) -> None: ...

    carrier.install(order)
    task_id = carrier.enqueue(loose, variables)
    carrier.run()
    ended = carrier.task(task_id)
    assert (ended.state, ended.attempts) == ("FAILED", 1)
    assert says in ended.error
    assert "secret" not in ended.error
    with pytest.raises(Invalid, match=says):
        carrier.enqueue(order, variables)


async def test_a_task_is_enqueued_from_async_programs_too(carrier: Carrier, fleet_url_db: str) -> None:
    @task("order", version=3)
    def order(ctx: Context, order: Order) -> Order:
        return order

    carrier.install(order)
    async with await psycopg.AsyncConnection.connect(fleet_url_db) as connection:
        with pytest.raises(Invalid, match="number: Field required"):
            await order.aenqueue(connection, {"card": "visa"})
        enqueued = await order.aenqueue(connection, Order(number=1, card="visa"))
    carrier.run()
    assert carrier.result(enqueued.task_id) == {"number": 1, "card": "visa"}


def test_declarations_that_cannot_work_are_refused_when_they_are_installed(carrier: Carrier) -> None:
    class Foreign: ...

    @task("none")
    def none() -> None: ...

    @task("three")
    def three(ctx: Context, a: int, b: int) -> None: ...

    @task("foreign")
    def foreign(ctx: Context, input: Foreign) -> None: ...

    @task("unknown")
    def unknown(ctx: Context, input: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    for declared in (none, three, foreign, unknown):
        with pytest.raises(TypeError, match=declared.task_type):
            carrier.install(declared)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"attempts": 0}, "attempts must be a whole number of 1 to 2147483647, not 0"),
        ({"first": -1}, "first must be 0 or more"),
        ({"factor": 0.5}, "factor must be 1 or more"),
        ({"cap": float("nan")}, "cap must be 0 or more"),
        ({"attempts": 2**31}, "attempts must be a whole number of 1 to 2147483647, not 2147483648"),
        ({"attempts": 1.5}, "attempts must be a whole number"),
        ({"attempts": True}, "attempts must be a whole number"),
        ({"attempts": "3"}, "attempts must be a whole number"),
        ({"first": "1"}, "first must be 0 or more"),
    ],
)
def test_a_policy_that_could_not_be_is_refused_where_it_is_written(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        RetryPolicy(**wrong)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        *[({"version": version}, "version") for version in (0, -1, 2**31, True, "1", 1.0, None)],
        *[({name: limit}, name) for name in ("soft_time_limit", "time_limit") for limit in (0, -1, float("nan"), "1")],
        ({"soft_time_limit": 2, "time_limit": 2}, "soft_time_limit"),
        ({"soft_time_limit": 3, "time_limit": 2}, "soft_time_limit"),
        *[({"queue": queue}, "queue") for queue in ("", " ", " mine", 7, "q" * 256)],
        *[({"lease": lease}, "lease") for lease in (0, -1, 0.0001, 2_592_001, float("inf"), "30", True)],
        *[({"concurrency": most}, "concurrency") for most in (-1, 10_001, 1.5, "2", False)],
        *[({"rate": rate}, "rate") for rate in (5, (1,), (0, 60), (1, 0), (1_000_001, 1), (1, 2_592_001), ("1", 1))],
        ({"retry": RetryPolicy(factor=101)}, "retry.factor"),
        ({"retry": RetryPolicy(first=4e9)}, "retry.first"),
        ({"retry": RetryPolicy(cap=4e9)}, "retry.cap"),
    ],
)
def test_a_declaration_that_could_not_be_is_refused_where_it_is_written(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(ValueError, match=rf"^'order': {field} must "):
        task("order", **wrong)(nothing)


@pytest.mark.parametrize("name", ["", " order", "order*", "o" * 256, 7])
def test_so_is_a_name_that_is_none(name: Any) -> None:
    with pytest.raises(ValueError, match="task_type must be"):
        task(name)(nothing)


@pytest.mark.parametrize(
    "odd",
    [
        {"version": 2**31 - 1},
        {"lease": 0.001, "soft_time_limit": 0.5, "time_limit": 1},
        {"lease": 2_592_000, "time_limit": float("inf"), "queue": "q" * 255},
        {"concurrency": 0, "rate": (0, 0)},
        {"concurrency": 10_000, "rate": (1_000_000, 2_592_000)},
        {"retry": RetryPolicy(attempts=2**31 - 1, first=0, factor=100, cap=0)},
    ],
)
def test_a_declaration_that_is_only_odd_is_taken(carrier: Carrier, odd: dict[str, Any]) -> None:
    carrier.install(task("order", **odd)(nothing))


def nothing(ctx: Context) -> None:
    """A handler."""


def raises(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


class Own(BaseException):
    pass


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda: sys.exit(3), "SystemExit: 3"),
        (raises(KeyboardInterrupt()), "KeyboardInterrupt"),
        (raises(GeneratorExit()), "GeneratorExit"),
        (raises(Own("mine")), "Own: mine"),
        (raises(StopIteration(1)), "StopIteration: 1"),
        (lambda: {"share": float("nan")}, "result.share is nan, which JSON does not have"),
        (lambda: {"at": object()}, "result.at is of type object"),
        (lambda: {"text": "x" * 1024 * 1024}, "at most 1048576 are stored"),
        (lambda: (yield), "result is of type generator"),
        (lambda: {"half": "\ud800"}, "result.half holds half of a surrogate pair"),
        (lambda: {"price": Decimal("1e200000")}, "result.price has more digits than Postgres has room for"),
        (lambda: {"flags": [1] * 400_000}, "over 1 MiB"),
    ],
)
@pytest.mark.parametrize("where", ["handler", "step"])
def test_whatever_a_handler_does_fails_its_attempt_and_no_more(
    carrier: Carrier, act: Callable[[], Any], says: str, where: str
) -> None:
    @task("bad", retry=ONCE)
    def bad(ctx: Context) -> Any:
        return act() if where == "handler" else {"result": ctx.step("bad", act)}

    task_id = carrier.start(bad)
    assert carrier.state(task_id) == "FAILED"
    assert says in carrier.task(task_id).error


def test_a_task_results_in_an_object_or_nothing(carrier: Carrier) -> None:
    @task("list", retry=ONCE)
    def lists(ctx: Context) -> list[int]:
        return [1]

    assert carrier.task(carrier.start(lists)).error == "the handler returned list; a result is an object or None"


@pytest.mark.parametrize("where", ["handler", "step", "operation", "transaction", "transact", "gather"])
def test_the_child_of_a_fork_ends_where_the_users_code_does_and_says_nothing_to_postgres(
    carrier: Carrier, effect: Effect, effects: Effects, where: str, tmp_path: Path
) -> None:
    here = os.getpid()
    children: list[int] = []
    further = tmp_path / "further"

    def come(name: str, subject: str) -> None:
        if os.getpid() != here:
            further.write_text(f"{name} {subject}")
            os._exit(1)

    def fork() -> None:
        child = os.fork()
        if child:
            children.append(child)

    @task("forks")
    def forks(ctx: Context) -> None:
        if where == "handler":
            fork()
        elif where == "step":
            ctx.step("fork", fork)
        elif where == "operation":
            ctx.operation("fork", None, do=lambda plan: fork())
        elif where == "transaction":
            with ctx.transaction():
                fork()
        elif where == "transact":
            ctx.transact("fork", lambda session: fork())
        else:
            ctx.gather(fork, lambda: None)
        ctx.step("effect", effect, "effect")

    _faults.arm(come)
    task_id = carrier.start(forks)
    assert os.getpid() == here, "the child came through"
    assert not further.exists(), further.read_text()
    statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert statuses == [70]
    assert carrier.state(task_id) == "COMPLETED"
    assert effects() == ["effect"]


def test_retry_and_fatal_say_how_an_attempt_ends(carrier: Carrier) -> None:
    @task("moody")
    def moody(ctx: Context, input: dict[str, Any]) -> None:
        if ctx.attempt == 1:
            raise Retry("not yet", after=0)
        raise Fatal("never")

    task_id = carrier.start(moody)
    assert (carrier.state(task_id), carrier.task(task_id).attempts) == ("FAILED", 2)
    assert "Fatal: never" in carrier.task(task_id).error


def test_the_error_shows_the_users_lines(carrier: Carrier) -> None:
    def charge() -> None:
        raise ConnectionError("busy")

    @task("order", retry=ONCE)
    def order(ctx: Context) -> None:
        ctx.step("charge", charge)

    error = carrier.task(carrier.start(order)).error
    assert error.splitlines()[0] == "celeriac.errors.StepFailed: 'charge' failed: ConnectionError: busy"
    assert 'in order: ctx.step("charge", charge)' in error
    assert 'in charge: raise ConnectionError("busy")' in error
    assert "celeriac/durable" not in error


def test_a_key_for_others_is_the_same_in_every_attempt(carrier: Carrier) -> None:
    keys = []

    @task("keyed")
    def keyed(ctx: Context) -> None:
        keys.append((ctx.idempotency_key("charge"), ctx.idempotency_key("ship"), ctx.fencing_token))
        if ctx.attempt == 1:
            raise Retry(after=0)

    task_id = carrier.start(keyed)
    assert keys[0][:2] == keys[1][:2] == (f"{task_id}:charge", f"{task_id}:ship")
    assert keys[0][2] < keys[1][2]
