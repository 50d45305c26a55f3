"""Small durable tasks, each with effects that can be counted afterwards, and what must be true of them then.

Every task of a case gets a key, and everything it does outside carries it: lines in files (an outside world that nobody
can roll back) and rows of business tables.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.orm import Session, sessionmaker

from celeriac import AsyncContext, Context, Done, DurableTask, Fatal, NotDone, RetryPolicy, send_signal, task
from celeriac.testing import Clock

# A lost connection fails an attempt: it may do so as often as it is cut, and is tried again at once.
PATIENT = RetryPolicy(attempts=5, first=0, cap=0)
LEASE_SECONDS = 20.0

TABLES = "create table paid (key text not null, what text not null)"

Connection = psycopg.Connection[Any]


def outside() -> Path:
    """The outside world: a folder of files to which lines are appended."""
    return Path(os.environ["OUTSIDE_WORLD"])


def do(key: str, what: str) -> str:
    """An effect that cannot be taken back: a line in a file."""
    with (outside() / what).open("a") as file:
        file.write(f"{key}\n")
    return f"{what} of {key}"


def undo(key: str, what: str) -> None:
    do(key, f"{what} undone")


def times(key: str, what: str) -> int:
    """How often it was done."""
    file = outside() / what
    return file.read_text().splitlines().count(key) if file.exists() else 0


def paid(connection: Connection, key: str) -> list[str]:
    """What was paid, in business rows."""
    return sorted(row[0] for row in connection.execute("select what from paid where key = %s", [key]).fetchall())


def pay(connection: Connection, key: str, what: str) -> str:
    connection.execute("insert into paid values (%s, %s)", [key, what])
    return what


def found(plan: dict[str, str]) -> Done | NotDone:
    """Looks whether the effect is there."""
    return Done(f"line of {plan['key']}") if times(plan["key"], plan["what"]) else NotDone()


def write_line(plan: dict[str, str]) -> str:
    do(plan["key"], plan["what"])
    return f"line of {plan['key']}"


# The tasks.


@task("steps", lease=LEASE_SECONDS, retry=PATIENT)
def steps(ctx: Context, input: dict[str, str]) -> dict[str, str]:
    first = ctx.step("first", do, input["key"], "first")
    second = ctx.step("second", do, input["key"], "second")
    return {"first": first, "second": second}


@task("operation", lease=LEASE_SECONDS, retry=PATIENT)
def operation(ctx: Context, input: dict[str, str]) -> dict[str, str]:
    plan = {"key": input["key"], "what": "line"}
    return {"line": ctx.operation("write", plan, do=write_line, reconcile=found)}


@task("blind", lease=LEASE_SECONDS, retry=PATIENT)
def blind(ctx: Context, input: dict[str, str]) -> dict[str, str]:
    """Nobody can tell afterwards whether it was done."""
    plan = {"key": input["key"], "what": "line"}
    return {"line": ctx.operation("write", plan, do=write_line)}


@task("transaction", lease=LEASE_SECONDS, retry=PATIENT)
def transaction(ctx: Context, input: dict[str, str]) -> None:
    with ctx.transaction(name="pay") as connection:
        pay(connection, input["key"], "bill")
    with ctx.transaction(name="tip") as connection:
        pay(connection, input["key"], "tip")


@task("transact", lease=LEASE_SECONDS, retry=PATIENT)
def transact(ctx: Context, input: dict[str, str]) -> dict[str, str]:
    return {"paid": ctx.transact("pay", pay, input["key"], "bill")}


@task("retries", lease=LEASE_SECONDS, retry=PATIENT)
def retries(ctx: Context, input: dict[str, str]) -> dict[str, str]:
    first = ctx.step("first", do, input["key"], "first")
    if not times(input["key"], "failed"):
        do(input["key"], "failed")
        raise OSError("not this time")
    return {"first": first}


@task("unknown", lease=LEASE_SECONDS, retry=PATIENT)
def unknown(ctx: Context, input: dict[str, str]) -> dict[str, str]:
    """It was done, and then went wrong: only a person can tell."""
    plan = {"key": input["key"], "what": "line"}
    return {"line": ctx.operation("write", plan, do=write_and_fail, retry=RetryPolicy(attempts=2, first=0, cap=0))}


def write_and_fail(plan: dict[str, str]) -> str:
    write_line(plan)
    raise OSError("the printer does not answer")


@task("orm", lease=LEASE_SECONDS, retry=PATIENT)
def orm(ctx: Context, input: dict[str, str]) -> dict[str, str]:
    """The same writes through a session of SQLAlchemy."""
    sessions = sessionmaker(create_engine(os.environ["BUSINESS"], poolclass=NullPool))
    with ctx.transaction(sessions, name="pay") as session:
        session.execute(text("insert into paid values (:key, 'bill')"), {"key": input["key"]})
    return {"paid": ctx.transact("tip", tip, input["key"], source=sessions)}


def tip(session: Session, key: str) -> str:
    session.execute(text("insert into paid values (:key, 'tip')"), {"key": key})
    return "tip"


@task("waits", lease=LEASE_SECONDS, retry=PATIENT)
def waits(ctx: Context, input: dict[str, str]) -> dict[str, Any]:
    ctx.step("before", do, input["key"], "before")
    signal = ctx.wait_for("go", input["key"])
    assert signal is not None
    with ctx.transaction() as connection:
        pay(connection, input["key"], signal.payload["what"])
    return {"got": signal.payload}


@task("sleeps", lease=LEASE_SECONDS, retry=PATIENT)
def sleeps(ctx: Context, input: dict[str, str]) -> None:
    ctx.sleep(86_400)
    with ctx.transaction() as connection:
        pay(connection, input["key"], "bill")


@task("leaf", lease=LEASE_SECONDS, retry=PATIENT)
def leaf(ctx: Context, input: dict[str, str]) -> dict[str, str]:
    return {"paid": ctx.transact("pay", pay, input["key"], input["what"])}


@task("parent", lease=LEASE_SECONDS, retry=PATIENT)
def parent(ctx: Context, input: dict[str, str]) -> dict[str, Any]:
    one = ctx.enqueue(leaf, {"key": input["key"], "what": "one"})
    two = ctx.enqueue(leaf, {"key": input["key"], "what": "two"})
    return {"children": [one.result(), two.result()]}


@task("gathers", lease=LEASE_SECONDS, retry=PATIENT)
def gathers(ctx: Context, input: dict[str, str]) -> dict[str, Any]:
    key = input["key"]
    return {
        "all": ctx.gather(
            lambda: ctx.transact("pay", pay, key, "bill"),
            lambda: ctx.operation("write", {"key": key, "what": "line"}, do=write_line, reconcile=found),
            lambda: ctx.step("first", do, key, "first"),
        )
    }


@task("saga", lease=LEASE_SECONDS, retry=PATIENT, compensate_retry=PATIENT)
def saga(ctx: Context, input: dict[str, str]) -> None:
    key = input["key"]
    for what in ("flight", "hotel"):
        ctx.step(what, do, key, what, compensate=undo)
    raise Fatal("no car is left")


@task("undone_by_hand", lease=LEASE_SECONDS, retry=PATIENT, compensate_retry=RetryPolicy(attempts=1))
def undone_by_hand(ctx: Context, input: dict[str, str]) -> None:
    ctx.step("flight", do, input["key"], "flight", compensate=undo_at_the_second_try)
    raise Fatal("no car is left")


def undo_at_the_second_try(key: str, what: str) -> None:
    if not times(key, "tried"):
        do(key, "tried")
        raise OSError("the office is closed")
    undo(key, what)


@task("canceled", lease=LEASE_SECONDS, retry=PATIENT, compensate_retry=PATIENT)
def canceled(ctx: Context, input: dict[str, str]) -> None:
    ctx.step("flight", do, input["key"], "flight", compensate=undo)
    ctx.wait_for("never", input["key"])


@task("coroutine", lease=LEASE_SECONDS, retry=PATIENT)
async def coroutine(ctx: AsyncContext, input: dict[str, str]) -> dict[str, str]:
    async def slowly(key: str) -> str:
        await asyncio.sleep(0)
        return do(key, "first")

    first = await ctx.step("first", slowly, input["key"])
    plan = {"key": input["key"], "what": "line"}
    return {"first": first, "line": await ctx.operation("write", plan, do=write_line, reconcile=found)}


@task("tiny", lease=LEASE_SECONDS, retry=PATIENT, batch=True)
def tiny(ctx: Context, input: dict[str, str]) -> dict[str, str]:
    """Fetched and completed by the dozen: what a crash interrupts is done again."""
    return {"tiny": do(input["key"], f"tiny {input['number']}")}


# What comes from outside while they wait. Sent again after a crash, it must change nothing.


def send_go(connection: Connection, key: str) -> None:
    send_signal(connection, "go", key, {"what": "bill"}, dedupe_id=key)


def let_a_day_pass(connection: Connection, key: str) -> None:
    Clock(connection).advance(days=1, seconds=1)


def open_the_office(connection: Connection, key: str) -> None:
    """A person says that the undo may be tried again."""
    connection.execute(
        "select celeriac.resolve_incident(i.incident_id, 'retry') from celeriac.incidents i"
        "  join celeriac.task_list t using (task_id) where i.state = 'OPEN' and t.business_key = %s",
        [key],
    ).fetchall()


def call_it_off(connection: Connection, key: str) -> None:
    connection.execute(
        "select celeriac.cancel_task(task_id, compensate => true) from celeriac.task_list"
        " where business_key = %s and state not in ('COMPLETED', 'FAILED', 'CANCELED')",
        [key],
    ).fetchall()


# What must be true at the end, whatever broke once in between.


@dataclass(frozen=True)
class Ended:
    """One task of a case and all that it left behind."""

    key: str
    state: str
    result: Any
    error: str | None
    paid: Sequence[str]
    done: Mapping[str, int]
    was_unknown: bool


def once(*whats: str) -> Callable[[Ended], None]:
    """Operations: their effect is there exactly once."""

    def check(ended: Ended) -> None:
        assert {what: ended.done.get(what, 0) for what in whats} == dict.fromkeys(whats, 1)

    return check


def once_or_twice(*whats: str) -> Callable[[Ended], None]:
    """Steps: what was cut off before it was on record is done again, so at most once more for one crash."""

    def check(ended: Ended) -> None:
        assert all(1 <= ended.done.get(what, 0) <= 2 for what in whats), ended.done

    return check


def rows(*whats: str) -> Callable[[Ended], None]:
    """Transactions: exactly these rows."""

    def check(ended: Ended) -> None:
        assert ended.paid == sorted(whats)

    return check


def result(make: Callable[[str], Any]) -> Callable[[Ended], None]:
    def check(ended: Ended) -> None:
        assert (ended.state, ended.result) == ("COMPLETED", make(ended.key)), ended.error

    return check


def undone(state: str, *whats: str) -> Callable[[Ended], None]:
    """The task has ended so, and every effect was undone."""

    def check(ended: Ended) -> None:
        assert ended.state == state
        assert state == "CANCELED" or ended.error == "Fatal: no car is left"
        assert all(ended.done[f"{what} undone"] >= 1 for what in whats), ended.done

    return check


def flagged(ended: Ended) -> None:
    """Nobody but a person could decide, and one was asked."""
    assert ended.was_unknown


@dataclass(frozen=True)
class Case:
    """A task, what happens to it from outside, and what must be true when it has ended."""

    task: DurableTask
    focus: Sequence[str]
    """What its points are called that it is there for: `make test` strikes at these."""
    checks: Sequence[Callable[[Ended], None]]
    stimuli: Sequence[Callable[[Connection, str], None]] = ()
    others: Sequence[DurableTask] = field(default=())
    count: int = 1
    """How many of the task are enqueued at once, each with its number in the input."""

    @property
    def name(self) -> str:
        return self.task.task_type

    @property
    def tasks(self) -> list[DurableTask]:
        return [self.task, *self.others]


CORPUS: Mapping[str, Case] = {
    case.name: case
    for case in [
        Case(
            steps,
            ["fetch", "attempt", "report", "steps", "step"],
            [
                once_or_twice("first", "second"),
                result(lambda key: {"first": f"first of {key}", "second": f"second of {key}"}),
            ],
        ),
        Case(operation, ["operation"], [once("line"), result(lambda key: {"line": f"line of {key}"})]),
        Case(blind, ["operation"], [once("line"), result(lambda key: {"line": f"line of {key}"})]),
        Case(transaction, ["transaction"], [rows("bill", "tip"), result(lambda key: {})]),
        Case(transact, ["transaction"], [rows("bill"), result(lambda key: {"paid": "bill"})]),
        Case(
            orm,
            ["transaction"],
            [rows("bill", "tip"), result(lambda key: {"paid": "tip"})],
        ),
        Case(
            retries,
            ["report", "steps"],
            [once_or_twice("first", "failed"), result(lambda key: {"first": f"first of {key}"})],
        ),
        Case(
            unknown,
            ["operation", "incident"],
            [once("line"), flagged, result(lambda key: {"line": f"line of {key}"})],
        ),
        Case(
            waits,
            ["suspend", "steps"],
            [once_or_twice("before"), rows("bill"), result(lambda key: {"got": {"what": "bill"}})],
            stimuli=[send_go],
        ),
        Case(sleeps, ["suspend"], [rows("bill"), result(lambda key: {})], stimuli=[let_a_day_pass]),
        Case(
            parent,
            ["enqueue", "suspend", "report"],
            [rows("one", "two"), result(lambda key: {"children": [{"paid": "one"}, {"paid": "two"}]})],
            others=[leaf],
        ),
        Case(
            gathers,
            ["operation", "transaction", "step"],
            [
                rows("bill"),
                once("line"),
                once_or_twice("first"),
                result(lambda key: {"all": ["bill", f"line of {key}", f"first of {key}"]}),
            ],
        ),
        Case(
            saga,
            ["compensation", "step", "report", "undo"],
            [once_or_twice("flight", "hotel"), undone("FAILED", "flight", "hotel")],
        ),
        Case(
            undone_by_hand,
            ["undo", "incident"],
            [once_or_twice("flight"), undone("FAILED", "flight")],
            stimuli=[open_the_office],
        ),
        Case(
            canceled,
            ["compensation", "suspend", "undo"],
            [once_or_twice("flight"), undone("CANCELED", "flight")],
            stimuli=[call_it_off],
        ),
        Case(
            tiny,
            ["fetch", "attempt", "report"],
            [once_or_twice("tiny 0", "tiny 1", "tiny 2"), result(lambda key: {"tiny": f"tiny 0 of {key}"})],
            count=3,
        ),
        Case(
            coroutine,
            ["operation", "step"],
            [
                once("line"),
                once_or_twice("first"),
                result(lambda key: {"first": f"first of {key}", "line": f"line of {key}"}),
            ],
        ),
    ]
}
