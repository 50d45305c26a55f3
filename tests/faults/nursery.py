"""A process that has imported all that a fleet worker needs, and forks one for each order that it reads.

So a worker that is to be killed costs 10 ms instead of a second. An order is a line of JSON (Order); the answer is one,
too: how the worker ended. What it passed and what it said is in its folder.

The worker is a fleet's: an app, `install`, and rings that are heard until nothing is left. Only the broker is one in
memory, since nobody rings.
"""

import gc
import json
import os
import signal
import sys
import threading
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import psycopg
from celery import Celery

from celeriac import _faults
from celeriac.celery import Fleet, install
from tests.faults.corpus import CORPUS, Case
from tests.faults.relay import Relay

WORKER = "fleet@faults"
UNHARMED = 3
"""It was to be struck, and nothing came of it: no answer came after that point."""
PASSED, SAID = "passed", "said"

CHORES = ("expire_leases", "promote_due", "fire_timers")
# Looked at first: to call a function for nothing would cost a new session more than all the rest of a worker's life.
TO_DO = """
    select exists (select from celeriac.queue where state = 'READY' and task_type = any (%s)),
           exists (select from celeriac.queue where state = 'LOCKED' and lease_expires_at <= celeriac.now()),
           exists (select from celeriac.queue where state = 'SCHEDULED' and run_at <= celeriac.now()),
           exists (select from celeriac.wait where armed and until <= celeriac.now())"""

Fault = Literal["kill", "cut", "mute"]
"""SIGKILL; all sessions ended by the server; the next answer of the server lost."""


@dataclass(frozen=True)
class Order:
    """One worker: what it runs, and where it is struck (at the place-th point it comes to; None: nowhere)."""

    url: str
    case: str
    key: str
    folder: str
    fault: Fault | None = None
    place: int | None = None

    def to_line(self) -> str:
        return json.dumps(asdict(self)) + "\n"


class Strike:
    """Counts points, writes down their names, and strikes at one of them."""

    def __init__(self, order: Order, application: str, relay: Relay) -> None:
        self._order = order
        self._relay = relay
        self._application = application
        self._passed = 0
        self._turn = threading.Lock()
        # Unbuffered: what is written is there, however this process ends.
        self._file = (Path(order.folder) / PASSED).open("ab", buffering=0)

    def __call__(self, name: str, subject: str) -> None:
        with self._turn:  # the branches of a gather are threads
            place, self._passed = self._passed, self._passed + 1
            self._file.write(f"{name}:{subject}\n".encode())
            if place == self._order.place:
                self._strike()

    def _strike(self) -> None:
        match self._order.fault:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "cut":
                self._cut()
            case "mute":
                self._relay.lose_the_next_answer()

    def _cut(self) -> None:
        """End every session of this worker on the server, as a fail-over does."""
        with psycopg.connect(self._order.url, autocommit=True) as connection:
            connection.execute(
                "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = %s",
                [self._application],
            )


def main() -> None:
    gc.freeze()  # so that a child's collector does not copy what they share
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os._exit(live(Order(**json.loads(line))))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201 - the answer


def live(order: Order) -> int:
    """One worker's life, until nothing is left to do: 0, 1 when it ended with an exception, or UNHARMED."""
    with (Path(order.folder) / SAID).open("a") as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
    try:
        return work(order)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        return 1


def work(order: Order) -> int:
    os.environ["OUTSIDE_WORLD"] = order.folder
    case = CORPUS[order.case]
    application = f"faults-{os.getpid()}"
    server = urlsplit(order.url)
    relay = Relay(server.hostname or "", server.port or 5432)
    url = server._replace(netloc=f"{server.username}@127.0.0.1:{relay.port}", query=f"application_name={application}")
    os.environ["BUSINESS"] = url._replace(scheme="postgresql+psycopg").geturl()
    fleet = install(Celery("faults", broker="memory://"), database_url=url.geturl(), tasks=case.tasks)
    _faults.arm(Strike(order, application, relay))
    with psycopg.connect(order.url, autocommit=True) as connection:
        until_idle(fleet, case, connection)
        for stimulus in case.stimuli:
            stimulus(connection, order.key)
            until_idle(fleet, case, connection)
    return UNHARMED if order.fault == "mute" and not relay.lost else 0


def until_idle(fleet: Fleet, case: Case, connection: psycopg.Connection[Any]) -> None:
    """Hear rings, and do the chores that have something to do, until there is nothing for either."""
    while True:
        row = connection.execute(TO_DO, [[task.task_type for task in case.tasks]]).fetchone()
        assert row is not None
        is_ready, *chores = row
        for chore, is_due in zip(CHORES, chores, strict=True):
            if is_due:
                connection.execute(f"select celeriac.{chore}()")
        if is_ready:
            fleet.hear(case.task.task_type, WORKER)
        elif not any(chores):
            return


if __name__ == "__main__":
    main()
