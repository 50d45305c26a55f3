"""States that interleavings start from: made once by calls, kept in tables beside, and put back in one call."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, text

from db.call import json_list, one, rows
from tests.clock import Clock
from tests.proof.database import state_tables
from tests.proof.sessions import FIRST_NEW_TOKEN, FIRST_TOKEN

TYPE = "scan"


@dataclass
class Start:
    """A starting state; `ids` are its tasks, oldest first, `tokens` their leases, in the same order."""

    ids: list[str]
    tokens: list[int]


class Makers:
    """One method a state. Each begins in an empty database at the same moment; all end ten seconds later."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def nothing(self) -> Start:
        return Start(["00000000-0000-7000-8000-000000000000"], [FIRST_TOKEN])

    def ready(self, **item: Any) -> Start:
        item = {"task_type": TYPE, "idempotency_key": "k", "retries": 2} | item
        row = one(self.connection, "enqueue_tasks", tasks=json_list([item]))
        return Start([str(row.task_id)], [FIRST_TOKEN])

    def due(self) -> Start:
        return self.ready(delay_ms=5000)

    def locked(self, lease_ms: int = 60_000, **item: Any) -> Start:
        start = self.ready(**item)
        self._fetch(lease_ms)
        return start

    def expired(self) -> Start:
        return self.locked(lease_ms=1000)

    def expired_for_the_last_time(self) -> Start:
        return self.locked(lease_ms=1000, policy={"expirations": 0})

    def extended(self) -> Start:
        """Its lease is looked at too early, since it was extended."""
        start = self.locked(lease_ms=1000)
        one(
            self.connection,
            "extend_lease",
            task_id=start.ids[0],
            worker_id="w1",
            principal="p",
            lock_duration_ms=60_000,
        )
        return start

    def completed(self) -> Start:
        start = self.locked()
        one(self.connection, "complete_task", task_id=start.ids[0], worker_id="w1", principal="p", variables={})
        return start

    def failed_once(self) -> Start:
        return self._fail(retry_after_ms=0)

    def failed(self) -> Start:
        return self._fail(retries=0)

    def canceled(self) -> Start:
        start = self.ready()
        one(self.connection, "cancel_task", task_id=start.ids[0])
        return start

    def two_locked(self) -> Start:
        starts = [self.locked(idempotency_key=key) for key in ("k", "l")]
        return Start([start.ids[0] for start in starts], [FIRST_TOKEN, FIRST_TOKEN + 1])

    def two_failed(self) -> Start:
        start = self.two_locked()
        for task_id in start.ids:
            one(self.connection, "fail_task", task_id=task_id, worker_id="w1", principal="p", error="", retries=0)
        return start

    def going_to_rest(self) -> Start:
        """Held by who logged in, as a fleet holds it; so are those of the states below."""
        row = one(self.connection, "enqueue_tasks", tasks=json_list([{"task_type": TYPE}]))
        self._fetch(60_000, principal=None)
        return Start([str(row.task_id)], [FIRST_TOKEN])

    def resting(self, timeout_ms: int = 60_000) -> Start:
        start = self.going_to_rest()
        self._suspend(start, {"kind": "signal", "name": "go", "topic": "go", "timeout_ms": timeout_ms, "branch": "1.0"})
        return start

    def resting_too_long(self) -> Start:
        return self.resting(timeout_ms=1000)

    def parent_going_to_rest(self) -> Start:
        """It holds one child, which is held as well."""
        start = self.going_to_rest()
        held = {"task_id": start.ids[0], "worker_id": "w1", "fencing_token": FIRST_TOKEN}
        tasks = json_list([{"task_type": TYPE}])
        child = one(self.connection, "enqueue_children", **held, branch="", ordinal=1, name="children", tasks=tasks)
        self._fetch(60_000, principal=None)
        return Start([start.ids[0], str(child.task_id)], [FIRST_TOKEN, FIRST_TOKEN + 1])

    def parent_resting(self) -> Start:
        start = self.parent_going_to_rest()
        self._suspend(
            start,
            {"kind": "signal", "name": "go", "topic": "go", "branch": "1.0"},
            {"kind": "task", "name": "c", "child_id": start.ids[1], "branch": "1.2"},
        )
        return start

    def ring_taken(self) -> Start:
        """Taken long ago and never settled, so it is due again."""
        start = self.ready()
        rows(self.connection, "take_outbox", channel="ring", max_rows=10, hold_ms=1000)
        return start

    def ring_parked(self) -> Start:
        start = self.ring_taken()
        self.connection.execute(text("update celeriac.outbox set attempts = 5"))
        one(self.connection, "settle_outbox", rejected=json_list([{"id": 1, "error": "no"}]))
        return start

    def two_rings(self) -> Start:
        self.ready()
        return self.ready(idempotency_key="l")

    def _suspend(self, start: Start, *waits: dict[str, Any]) -> None:
        held = {"task_id": start.ids[0], "worker_id": "w1", "fencing_token": FIRST_TOKEN}
        one(self.connection, "suspend_task", **held, waits=json_list([wait | {"ordinal": 1} for wait in waits]))

    def _fetch(self, lease_ms: int, principal: str | None = "p") -> None:
        one(
            self.connection,
            "fetch_tasks",
            worker_id="w1",
            principal=principal,
            task_types=[TYPE],
            max_tasks=1,
            lock_duration_ms=lease_ms,
        )

    def _fail(self, **arguments: Any) -> Start:
        start = self.locked()
        one(
            self.connection,
            "fail_task",
            task_id=start.ids[0],
            worker_id="w1",
            principal="p",
            fencing_token=FIRST_TOKEN,
            error="boom",
            **arguments,
        )
        return start


class Starts:
    """Keeps each state under its name; `put_back` makes the database what it was then."""

    def __init__(self, connection: Connection, clock: Clock, makers: type[Makers] = Makers) -> None:
        self.connection = connection
        self.clock = clock
        self.makers = makers
        self.made: dict[str, Start] = {}
        self.tables = state_tables(connection)
        connection.execute(text("create schema proof"))
        one(connection, "register_task_type", name=TYPE, delivery="celery")
        clock.freeze()

    def make(self, name: str) -> Start:
        """The state of this name, made at its first use."""
        if name not in self.made:
            self._empty()
            self.clock.advance(-10)
            maker: Callable[[], Start] = getattr(self.makers(self.connection), name)
            self.made[name] = maker()
            self.clock.advance(10)
            for table in self.tables:
                self.connection.execute(text(f"create table proof.{name}_{table} as table celeriac.{table}"))
            self.connection.execute(text(self._putting_back(name)))
        return self.made[name]

    def put_back(self, name: str) -> None:
        self.connection.execute(text(f"select proof.put_back_{name}()"))

    def _empty(self) -> None:
        for table in self.tables:
            self.connection.execute(text(f"delete from celeriac.{table}"))
        self.connection.execute(text(f"select setval('celeriac.fencing_token', {FIRST_TOKEN}, false)"))
        self.connection.execute(text("alter table celeriac.outbox alter column id restart"))

    def _putting_back(self, name: str) -> str:
        lines = [f"delete from celeriac.{table};" for table in self.tables]
        lines += [
            f"insert into celeriac.{table} overriding system value table proof.{name}_{table};" for table in self.tables
        ]
        return (
            f"create function proof.put_back_{name}() returns void language plpgsql as $$ begin {' '.join(lines)} "
            f"perform setval('celeriac.fencing_token', {FIRST_NEW_TOKEN}, false); end $$"
        )
