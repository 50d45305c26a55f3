"""The trouble that the demo makes: killed and frozen workers, a flushed Redis, a Postgres that dies and comes back.

External workers and the Celery fleet get the same: of each one is killed (of the fleet a child) and one is frozen.

Each act waits for a share of the work to be done, so that it meets workers in the middle of it. The freezing makes sure
that it bites: the worker is caught where it has written a copy and not yet reported it, it stays frozen until the
database has handed its task to somebody else, and it is watched until its report, with a token that is stale by
any clock, has been refused.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import ClassVar

import psutil
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from app.demo.evidence import REFUSED, REPORTING, WRITTEN, read_diaries
from app.demo.stage import FLEET_NAMES, WORKER_NAMES, Stage
from db.errors import Unavailable

# Longer than a lease, its expiry by the chore or a fetch, and a second run of the task together.
HAND_OVER_SECONDS = 30.0
REFUSAL_SECONDS = 15.0
LOOK_SECONDS = 0.05

Say = Callable[[str], None]
ShareDone = Callable[[], float]


class Stopped(Exception):
    """The demo ends; whoever waits for something stops waiting."""


@dataclass(frozen=True)
class Lease:
    """A task in somebody's hands."""

    task_id: str
    fencing_token: int


@dataclass(frozen=True)
class Troublemaker:
    """Who makes the trouble: what it acts on, whom it tells, and the event that ends it early."""

    IN_THE_MIDDLE: ClassVar[str] = "copies written and not yet reported"

    stage: Stage
    diaries: Path
    say: Say
    share_done: ShareDone
    stopping: Event

    def run(self) -> None:
        """All acts, one after the other; raises Stopped when the demo is called off.

        On a machine so slow that an act does not bite in time, the rest is left out: the account is what counts.
        """
        try:
            self.act()
        except TimeoutError as late:
            self.say(f"the rest of the trouble is left out: waited too long {late}")

    def act(self) -> None:
        sleeper, victim = WORKER_NAMES
        fleet_sleeper, fleet_victim = FLEET_NAMES
        self.wait_for_share(0.10)
        held = self.freeze_before_its_report(sleeper)
        held_by_fleet = self.freeze_before_its_report(fleet_sleeper)
        self.wait_for_share(0.20)
        self.kill_and_restart(victim)
        self.kill_a_child(fleet_victim)
        self.wait_for_share(0.30)
        self.flush_redis()
        self.thaw_and_see_it_refused(sleeper, held)
        self.thaw_and_see_it_refused(fleet_sleeper, held_by_fleet)
        self.wait_for_share(0.60)
        self.restart_postgres()

    def freeze_before_its_report(self, name: str) -> set[Lease]:
        """Stop a worker in its tracks between the last look at a lease and its report; returns those leases.

        The diary has a line before each report leaves, so without that line none is on its way.
        Returns no lease when no work is left for the worker.
        """
        process = self.stage.workers[name]
        while self.share_done() < 1:
            process.freeze()
            held = (self.lines_of(name, WRITTEN) - self.lines_of(name, REPORTING)) & self.leases_of(name)
            if held:
                self.say(f"{name} is frozen (SIGSTOP) with {len(held)} {self.IN_THE_MIDDLE}")
                return held
            process.thaw()
            self.pause(LOOK_SECONDS)
        return set()

    def thaw_and_see_it_refused(self, name: str, held: set[Lease]) -> None:
        """Wake the worker when others have its tasks, and wait until what it reports is refused."""
        if not held:
            self.say(f"{name} was not frozen: no work was left for it")
            return
        self.wait_until(lambda: self.all_handed_over(held), HAND_OVER_SECONDS, "for a hand-over")
        refused_before = self.lines_of(name, REFUSED)
        self.stage.workers[name].thaw()
        self.say(f"{name} is awake again; {len(held)} of its tasks belong to others now")
        self.wait_until(lambda: self.lines_of(name, REFUSED) > refused_before, REFUSAL_SECONDS, "for a refusal")
        self.say(f"{name} reported with an old fencing token and was refused")

    def kill_and_restart(self, name: str) -> None:
        """SIGKILL: no goodbye, no clean-up; its leases run out and others take over."""
        self.stage.workers[name].kill()
        left = len(self.leases_of(name))
        self.stage.workers[name].start()
        self.say(f"{name} was killed (SIGKILL) while it held {left} leases, and started again")

    def kill_a_child(self, name: str) -> None:
        """SIGKILL one child of a Celery worker: its parent starts another, its lease runs out."""
        children = psutil.Process(self.stage.workers[name].pid).children()
        if children:
            children[0].kill()
            self.say(f"a child of {name} was killed (SIGKILL); {len(self.leases_of(name))} leases were the worker's")

    def flush_redis(self) -> None:
        self.stage.valkey.flush()
        self.say("Redis was flushed: every wake-up and every queued tick is gone")

    def restart_postgres(self) -> None:
        """The hard way: no checkpoint, no goodbye to sessions; it recovers from its log."""
        began = time.monotonic()
        self.stage.postgres.restart("immediate")
        self.say(f"Postgres was stopped at once and recovered in {time.monotonic() - began:.1f} s")

    def leases_of(self, name: str) -> set[Lease]:
        rows = self.ask(
            "select task_id::text, fencing_token from celeriac.task_list where state = 'LOCKED'"
            " and (worker_id = :name or starts_with(worker_id, :name || '@'))",
            name=name,
        )
        return {Lease(*row) for row in rows}

    def all_handed_over(self, held: set[Lease]) -> bool:
        """Whether each of the tasks has a newer fencing token: somebody else has fetched it."""
        rows = self.ask(
            "select task_id::text, fencing_token from celeriac.task_list where task_id = any (cast(:ids as uuid[]))",
            ids=[lease.task_id for lease in held],
        )
        token_now = dict(rows)
        return all(token_now.get(lease.task_id, 0) > lease.fencing_token for lease in held)

    def lines_of(self, name: str, what: str) -> set[Lease]:
        lines = read_diaries(self.diaries, name)
        return {Lease(line.task_id, line.fencing_token) for line in lines if line.what == what}

    def ask(self, sql: str, **values: object) -> Sequence[tuple[str, int]]:
        """The rows, or none while the database is away."""
        try:
            with self.stage.engine.connect() as conn:
                return [tuple(row) for row in conn.execute(text(sql), values)]
        except (DBAPIError, Unavailable):
            return []

    def wait_for_share(self, share: float) -> None:
        self.wait_until(lambda: self.share_done() >= share, float("inf"), "for work to be done")

    def wait_until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(what)
            self.pause(LOOK_SECONDS)

    def pause(self, seconds: float) -> None:
        if self.stopping.wait(seconds):
            raise Stopped
