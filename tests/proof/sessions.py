"""Two callers of one database at once, stopped and let go as a test says; and what came of it."""

import re
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Engine, text

from db.call import rows
from db.errors import Refused
from tests.proof.barriers import GATE

# What a caller could ever see; what only keeps time (chore) or tells where to look (stream) is left out.
OUTCOME = {
    "task": "select * from celeriac.task",
    "queue": "select * from celeriac.queue",
    "idempotency": "select * from celeriac.idempotency",
    "history": "select * from celeriac.history",
    "outbox": "select channel, key, payload, due_at, attempts, parked_at, error from celeriac.outbox",
    **{
        table: f"select * from celeriac.{table}"
        for table in ("step", "operation", "compensation", "saga", "incident", "waiting", "wait")
    },
}
FIRST_TOKEN = 7_000_000_001
# What a starting state leaves is below; restarted with every play.
FIRST_NEW_TOKEN = FIRST_TOKEN + 99
NEW_TOKEN = re.compile(r"(?<![\w-])70000001\d\d(?![\w-])")
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Call:
    """One call of a function, under the name that a test shows. `skips`: it leaves rows alone that others hold."""

    name: str
    function: str
    arguments: dict[str, Any] = field(hash=False)
    skips: bool = False

    def __str__(self) -> str:
        return self.name


class Session:
    """One connection with a thread of its own, so that it can wait while others go on."""

    def __init__(self, engine: Engine) -> None:
        self.connection = engine.connect()
        self._thread = ThreadPoolExecutor(1)
        self.pid = int(self.connection.execute(text("select pg_backend_pid()")).scalar_one())
        self.run("set deadlock_timeout = '20ms'")

    def run(self, statement: str) -> None:
        self.connection.exec_driver_sql(statement)

    def start(self, call: Call) -> "Future[Any]":
        return self._thread.submit(self.answer, call)

    def answer(self, call: Call) -> Any:
        """Its rows, or the code of a refusal. Anything else, a deadlock above all, is raised."""
        try:
            return [tuple(row) for row in rows(self.connection, call.function, **call.arguments)]
        except Refused as refusal:
            return refusal.code

    def pause_at(self, place: int) -> None:
        self.run(f"select set_config('proof.place', '0', false), set_config('proof.pause_at', '{place}', false)")

    def places(self) -> int:
        """How many barriers it has met since the last pause_at."""
        return int(self.connection.exec_driver_sql("select current_setting('proof.place')").scalar_one())

    def close(self) -> None:
        self._thread.shutdown()
        self.connection.close()


@dataclass(frozen=True)
class Outcome:
    """What two callers were answered, and the rows they left; new ids and tokens by name instead of by value."""

    first: str
    second: str
    left: tuple[str, ...]


class Stage:
    """A database with two sessions on it and one that watches."""

    def __init__(self, engine: Engine) -> None:
        self.watcher: Connection = engine.connect()
        self.a, self.b = Session(engine), Session(engine)

    def close(self) -> None:
        for session in (self.a, self.b):
            session.close()
        self.watcher.close()

    def wait_for(self, session: Session, answer: "Future[Any]") -> None:
        """Until it has answered or waits for a lock."""
        waits = text("select wait_event_type = 'Lock' from pg_stat_activity where pid = :pid")
        while not (
            wait([answer], timeout=0.001).done or self.watcher.execute(waits, {"pid": session.pid}).scalar_one()
        ):
            pass

    def one_after_the_other(self, first: Call, second: Call) -> tuple[Any, Any]:
        return self.a.answer(first), self.a.answer(second)

    def second_while_first_is_uncommitted(self, first: Call, second: Call) -> tuple[Any, Any]:
        """The first has done all its work but not committed when the second comes."""
        self.a.run("begin")
        answer_a = self.a.answer(first)
        waiting = self.b.start(second)
        self.wait_for(self.b, waiting)
        self.a.run("commit")
        return answer_a, waiting.result()

    def second_at_a_barrier_of_first(self, first: Call, second: Call, place: int) -> tuple[Any, Any]:
        """The first stands at its n-th barrier when the second comes, and goes on when that has answered or waits."""
        self.a.pause_at(place)
        self.watcher.exec_driver_sql(f"select pg_advisory_lock({GATE})")
        try:
            paused = self.a.start(first)
            self.wait_for(self.a, paused)
            waiting = self.b.start(second)
            self.wait_for(self.b, waiting)
        finally:
            self.watcher.exec_driver_sql(f"select pg_advisory_unlock({GATE})")
        return paused.result(), waiting.result()

    def places(self, call: Call) -> int:
        """How many barriers a call meets when it is alone."""
        self.a.pause_at(-1)
        self.a.answer(call)
        return self.a.places()

    def outcome(self, answers: tuple[Any, Any]) -> Outcome:
        left = [
            f"{table} {tuple(row)}" for table, query in OUTCOME.items() for row in self.watcher.exec_driver_sql(query)
        ]
        return by_order(str(answers[0]), str(answers[1]), left)


def by_order(first: str, second: str, left: list[str]) -> Outcome:
    """An outcome with its new ids and tokens named in the order in which they show."""
    """Ids are new in every run, and so are the tokens drawn in it: they are named in the order in which they show."""
    in_order = [first, second, *sorted(left, key=lambda line: NEW_TOKEN.sub("", line))]
    names = {
        found: f"{kind} {place}"
        for kind, pattern in {"id": UUID, "new token": NEW_TOKEN}.items()
        for place, found in enumerate(dict.fromkeys(pattern.findall("\n".join(in_order))))
    }

    def named(line: str) -> str:
        return NEW_TOKEN.sub(lambda found: names[found[0]], UUID.sub(lambda found: names[found[0]], line))

    answer_a, answer_b, *rest = map(named, in_order)
    return Outcome(answer_a, answer_b, tuple(sorted(rest)))
