"""The trouble that the demo makes: a killed worker, a frozen one, a flushed Redis, a Postgres that dies and comes back.

Each act waits for a share of the work to be done, so that it meets workers in the middle of it, and each makes sure
that it bit: a worker is only "frozen with a task" when the database shows its lease, and it is thawed only when
that task has been handed to somebody else. What it does after waking is a stale write by any clock.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from app.demo.evidence import REFUSED, read_diaries
from app.demo.stage import Folders, Stage
from db.errors import Unavailable

# Longer than a lease, its expiry by the chore or a fetch, and a second run of the task together.
HAND_OVER_SECONDS = 30.0
REFUSAL_SECONDS = 15.0
ATTEMPTS_TO_FREEZE = 200
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

    stage: Stage
    folders: Folders
    say: Say
    share_done: ShareDone
    stopping: Event

    def run(self) -> None:
        """All acts, one after the other; raises Stopped when the demo is called off."""
        frozen, *others = self.stage.workers
        self.wait_for_share(0.10)
        lost = self.freeze_with_a_task(frozen)
        self.wait_for_share(0.20)
        self.kill_and_restart(others[0])
        self.wait_for_share(0.30)
        self.flush_redis()
        self.thaw_after_hand_over(frozen, lost)
        self.wait_for_share(0.60)
        self.restart_postgres()

    def freeze_with_a_task(self, name: str) -> set[Lease]:
        """Stop a worker in its tracks while the database shows leases of it; returns them."""
        process = self.stage.workers[name]
        for _ in range(ATTEMPTS_TO_FREEZE):
            process.freeze()
            held = self.leases_of(name)
            if held:
                self.say(f"{name} is frozen (SIGSTOP) with {len(held)} tasks in its hands")
                return held
            process.thaw()
            self.pause(LOOK_SECONDS)
        self.say(f"{name} never held a task and was not frozen")
        return set()

    def thaw_after_hand_over(self, name: str, held: set[Lease]) -> None:
        """Wake the worker when a task it thinks it holds is somebody else's, and wait until its write is refused."""
        if not held:
            return
        try:
            self.wait_until(lambda: self.handed_over(held), HAND_OVER_SECONDS)
        except TimeoutError:
            # What it held had been completed by a call that was on its way: nobody took anything from it.
            self.stage.workers[name].thaw()
            self.say(f"{name} woke up: all it held had been completed before it froze")
            return
        refused_before = self.refusals_of(name)
        self.stage.workers[name].thaw()
        self.say(f"{name} is awake again; its tasks belong to others now")
        try:
            self.wait_until(lambda: self.refusals_of(name) > refused_before, REFUSAL_SECONDS)
            self.say(f"{name} tried to write with an old fencing token and was refused")
        except TimeoutError:
            self.say(f"{name} noticed by itself that its leases were gone and wrote nothing")

    def kill_and_restart(self, name: str) -> None:
        """SIGKILL: no goodbye, no clean-up; its leases run out and others take over."""
        self.stage.workers[name].kill()
        left = len(self.leases_of(name))
        self.stage.workers[name].start()
        self.say(f"{name} was killed (SIGKILL) with {left} tasks in its hands, and started again")

    def flush_redis(self) -> None:
        self.stage.valkey.flush()
        self.say("Redis was flushed: every wake-up and every queued tick is gone")

    def restart_postgres(self) -> None:
        """The hard way: no checkpoint, no goodbye to sessions; it recovers from its log."""
        began = time.monotonic()
        self.stage.postgres.restart("immediate")
        self.say(f"Postgres was stopped at once and recovered in {time.monotonic() - began:.1f} s")

    def leases_of(self, worker_id: str) -> set[Lease]:
        rows = self.ask(
            "select task_id::text, fencing_token from celeriac.task_list where state = 'LOCKED' and worker_id = :name",
            name=worker_id,
        )
        return {Lease(*row) for row in rows}

    def handed_over(self, held: set[Lease]) -> bool:
        """Whether one of these tasks has a newer fencing token: somebody else has fetched it."""
        rows = self.ask(
            "select task_id::text, fencing_token from celeriac.task_list where task_id = any (cast(:ids as uuid[]))",
            ids=[lease.task_id for lease in held],
        )
        token_of = {lease.task_id: lease.fencing_token for lease in held}
        return any(token is not None and token > token_of[task_id] for task_id, token in rows)

    def refusals_of(self, name: str) -> int:
        return sum(line.what == REFUSED for line in read_diaries(self.folders.diaries, name))

    def ask(self, sql: str, **values: object) -> Sequence[tuple[str, int]]:
        """The rows, or none while the database is away."""
        try:
            with self.stage.engine.connect() as conn:
                return [tuple(row) for row in conn.execute(text(sql), values)]
        except (DBAPIError, Unavailable):
            return []

    def wait_for_share(self, share: float) -> None:
        self.wait_until(lambda: self.share_done() >= share, float("inf"))

    def wait_until(self, condition: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError
            self.pause(LOOK_SECONDS)

    def pause(self, seconds: float) -> None:
        if self.stopping.wait(seconds):
            raise Stopped
