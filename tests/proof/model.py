"""The state machine in plain Python, written from the words of the design: what each call must answer and leave behind.

It knows nothing of SQL. What only the database can choose (ids, fencing tokens, ties drawn by lot, the jitter) it is
told, and checks that the choice was allowed.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any
from uuid import UUID

OPEN = ("READY", "SCHEDULED", "BLOCKED", "LOCKED")
LINED_UP = ("READY", "BLOCKED")


class Refusal(Exception):
    """The model says that the call is refused with this code."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True)
class TaskType:
    """What a task of a type gets unless it asks for something else; the defaults of the design."""

    retries: int = 3
    lease_ms: int = 30_000
    first_ms: int = 1_000
    factor: float = 2
    cap_ms: int = 300_000
    jitter: float = 0.1
    expirations: int = 5
    rings: bool = False
    concurrency: int | None = None


@dataclass(frozen=True)
class Writer:
    """Who writes under which lease; a token of None is a writer that relies on its name."""

    task_id: UUID
    worker_id: str
    principal: str
    token: int | None
    only_types: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Failure:
    """What a failure is answered with. `at_most` is the run_at without jitter, `at_least` with all of it."""

    state: str
    retries: int
    at_least: datetime | None
    at_most: datetime | None


@dataclass
class Task:
    task_id: UUID
    task_type: str
    version: int
    priority: int
    asked_retries: int
    kind: TaskType
    created_at: datetime
    run_at: datetime
    turn_at: datetime
    state: str
    retries: int
    attempts: int = 0
    expirations: int = 0
    redrives: int = 0
    token: int = 0
    owner: str | None = None
    principal: str | None = None
    leased_at: datetime | None = None
    expires_at: datetime | None = None
    looked_at: datetime | None = None
    ended_at: datetime | None = None
    started_at: datetime | None = None
    result: dict[str, Any] | None = None
    error: str | None = None
    concurrency_key: str | None = None

    def row(self) -> tuple[Any, ...]:
        """What the tables must say of it, in the order of `ProofDatabase.tasks`."""
        retries = self.retries if self.is_open else self.asked_retries
        begun, run_at = self.leased_at or self.started_at, self.run_at if self.is_open else None
        counters = (retries, self.attempts, self.expirations, self.redrives, self.token)
        lease = (self.owner, self.principal, begun, self.expires_at, self.looked_at)
        return (self.state, *counters, *lease, run_at, self.ended_at, self.result, self.error)

    @property
    def is_open(self) -> bool:
        return self.state in OPEN

    @property
    def is_limited(self) -> bool:
        return self.kind.concurrency is not None and self.concurrency_key is not None

    def unlock(self, state: str) -> None:
        self.state = state
        self.owner = self.principal = self.leased_at = self.expires_at = self.looked_at = None

    def end(self, state: str, at: datetime, *, worker_id: str | None, principal: str | None) -> None:
        self.started_at = self.leased_at
        self.unlock(state)
        self.owner, self.principal, self.ended_at = worker_id, principal, at


@dataclass
class Model:
    """All tasks, the idempotency map, the timeline and the number of rings asked for, at one moment."""

    now: datetime
    kinds: dict[str, TaskType]
    observed: Callable[[], dict[UUID, tuple[Any, ...]]]
    tasks: dict[UUID, Task] = field(default_factory=dict)
    keys: dict[tuple[str, str], tuple[UUID, Any]] = field(default_factory=dict)
    history: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    lines: dict[tuple[str, str], datetime] = field(default_factory=dict)
    ran_at: dict[str, datetime] = field(default_factory=dict)
    past: dict[tuple[str, Writer], Any] = field(default_factory=dict)
    rings: int = 0

    # enqueue

    def enqueue(self, items: Sequence[dict[str, Any]]) -> list[tuple[str, bool, UUID | None]]:
        """(state, created, id of the task that has the key) per item; ids of new tasks come with `created`."""
        claimed: dict[tuple[str, str], tuple[UUID | None, Any]] = dict(self.keys)
        answers: list[tuple[str, bool, UUID | None]] = []
        for item in items:
            key = (item["task_type"], item.get("idempotency_key", ""))
            asked = (item.get("version", 1), item.get("variables", {}))
            if "idempotency_key" in item and key in claimed:
                first, before = claimed[key]
                if before != asked:
                    raise Refusal("idempotency_conflict")
                answers.append((self._answered_state(first, items, key), False, first))
            else:
                claimed[key] = (None, asked)
                answers.append(("SCHEDULED" if item.get("delay_ms", 0) > 0 else "READY", True, None))
        return answers

    def _answered_state(self, first: UUID | None, items: Sequence[dict[str, Any]], key: tuple[str, str]) -> str:
        if first is None:  # the first of this very batch
            item = next(i for i in items if (i["task_type"], i.get("idempotency_key")) == key)
            return "SCHEDULED" if item.get("delay_ms", 0) > 0 else "READY"
        return self.tasks[first].state if first in self.tasks else "PURGED"

    def created(self, task_id: UUID, item: dict[str, Any]) -> Task:
        kind = self.kinds.get(item["task_type"], TaskType())
        retries = item.get("retries", kind.retries)
        kind = TaskType(**(vars(kind) | _policy(item)))
        run_at = self.now + timedelta(milliseconds=item.get("delay_ms", 0))
        turn_at = max(run_at, self._turn(item)) if "fairness_key" in item else run_at
        task = Task(
            task_id=task_id,
            task_type=item["task_type"],
            version=item.get("version", 1),
            priority=item.get("priority", 0),
            asked_retries=retries,
            kind=kind,
            created_at=self.now,
            run_at=run_at,
            turn_at=turn_at,
            state="SCHEDULED" if run_at > self.now else "READY",
            retries=retries,
            concurrency_key=item.get("concurrency_key"),
        )
        self.tasks[task_id] = task
        if "idempotency_key" in item:
            self.keys[task.task_type, item["idempotency_key"]] = (
                task_id,
                (item.get("version", 1), item.get("variables", {})),
            )
        return task

    def _turn(self, item: dict[str, Any]) -> datetime:
        """One second behind the last task of the same fairness key, but an hour ahead at most."""
        line = (item["task_type"], item["fairness_key"])
        self.lines[line] = max(self.now, self.lines.get(line, datetime.min.replace(tzinfo=UTC)) + timedelta(seconds=1))
        return min(self.lines[line], self.now + timedelta(hours=1))

    # fetch

    def fetch(
        self, types: Sequence[str], want: int, versions: dict[str, list[int]] | None, got: set[UUID]
    ) -> tuple[set[UUID], set[UUID]]:
        """Checks that a fetch was allowed to take exactly `got`; too little makes it do what late chores owe.

        Answers with the tasks that were there at once, and those that this upkeep brought.
        """
        first = self._servable(types, versions)
        if len(first) >= want:
            self._check_best(first, want, got)
            return got, set()
        taken = {task.task_id for task in first}
        assert taken <= got, "a fetch left ready work although there was room"
        self.sweep_if_late(10)
        second = [task for task in self._servable(types, versions) if task.task_id not in taken]
        self._check_best(second, want - len(taken), got - taken)
        return taken, got - taken

    def fetch_limited(self, task_type: str, want: int, got: set[UUID]) -> None:
        """Checks that a fetch took as many as the limit of the type lets it, at once or after what late chores owe.

        Which of a key, the database chooses: whoever is let in before a better one comes stays before it.
        """
        waiting = {task.task_id for task in self.tasks.values() if task.state in LINED_UP}
        at_once = min(want, self._handed_out_at_most(task_type))
        if at_once < want:
            self.sweep_if_late(10)
        assert at_once <= len(got) <= min(want, self._handed_out_at_most(task_type))
        assert all(self.tasks[one].state in LINED_UP for one in got), "a fetch took what was not ready for it"
        assert at_once == want or len(got & waiting) >= at_once

    def _handed_out_at_most(self, task_type: str) -> int:
        """So many of the tasks that are lined up have a slot: all without a key, and of each key what is not held."""
        tasks = [task for task in self.tasks.values() if task.task_type == task_type]
        held = Counter(task.concurrency_key for task in tasks if task.state == "LOCKED")
        lined_up = Counter(task.concurrency_key for task in tasks if task.state in LINED_UP)
        limit = self.kinds[task_type].concurrency
        assert limit is not None
        return sum(count if key is None else min(count, limit - held[key]) for key, count in lined_up.items())

    def learn_who_is_let_in(self) -> None:
        """Of tasks with a limited key, the database says who of those that are lined up is READY, and who BLOCKED."""
        found = self.observed()
        for task in self.tasks.values():
            if task.is_limited and task.state in LINED_UP and found[task.task_id][0] in LINED_UP:
                task.state = found[task.task_id][0]

    def _servable(self, types: Iterable[str], versions: dict[str, list[int]] | None) -> list[Task]:
        allowed = versions or {}
        return [
            task
            for task in self.tasks.values()
            if task.state == "READY"
            and task.task_type in types
            and task.version in allowed.get(task.task_type, [task.version])
        ]

    def _check_best(self, ready: list[Task], want: int, got: set[UUID]) -> None:
        """Best priority first, then the streams (type and version) in turns, each in the order of its queue."""
        places: dict[UUID, tuple[int, int]] = {}
        streams: dict[tuple[str, int], list[Task]] = {}
        for task in sorted(ready, key=lambda t: (-t.priority, t.turn_at, t.task_id)):
            stream = streams.setdefault((task.task_type, task.version), [])
            stream.append(task)
            places[task.task_id] = (-task.priority, len(stream))
        assert got <= places.keys(), "a fetch took what was not ready for it"
        assert sorted(places[one] for one in got) == sorted(places.values())[:want], "a fetch did not take the best"

    def leased(self, task_id: UUID, worker_id: str, principal: str, token: int, lease_ms: int | None) -> int:
        """A fetch handed the task to a worker; how many ms the lease lasts."""
        task = self.tasks[task_id]
        lasts = lease_ms if lease_ms is not None else task.kind.lease_ms
        task.state, task.owner, task.principal, task.token = "LOCKED", worker_id, principal, token
        task.attempts += 1
        task.leased_at, task.expires_at = self.now, self.now + timedelta(milliseconds=lasts)
        task.looked_at = task.expires_at
        return lasts

    # what workers write

    def extend(self, writer: Writer, lease_ms: int) -> datetime:
        task = self._held(writer)
        task.expires_at = self.now + timedelta(milliseconds=lease_ms)
        assert task.looked_at is not None
        task.looked_at = min(task.looked_at, task.expires_at)
        return task.expires_at

    def complete(self, writer: Writer, result: dict[str, Any]) -> str:
        task = self.tasks.get(writer.task_id)
        if task is not None and task.state == "COMPLETED" and self._is_repeat(task, writer) and task.result == result:
            return "COMPLETED"
        task = self._held(writer)
        task.end("COMPLETED", self.now, worker_id=writer.worker_id, principal=writer.principal)
        task.result = result
        return "COMPLETED"

    def _is_repeat(self, task: Task, writer: Writer) -> bool:
        return (
            _covers(writer.only_types, task.task_type)
            and (task.owner, task.principal) == (writer.worker_id, writer.principal)
            and writer.token in (None, task.token)
        )

    def fail(self, writer: Writer, error: str, rest_ms: int | None, retries: int | None) -> Failure:
        task = self._held_or_past("failed", writer)
        if not isinstance(task, Task):
            return task
        kind, failures = task.kind, task.attempts - task.expirations
        left = retries if retries is not None else task.retries - 1
        nominal = min(float(kind.cap_ms), kind.first_ms * kind.factor ** (failures - 1))
        longest = timedelta(milliseconds=int(nominal if rest_ms is None else rest_ms))
        shortest = timedelta(milliseconds=int(nominal * (1 - kind.jitter) if rest_ms is None else rest_ms))
        self._note("failed", task, worker_id=writer.worker_id, principal=writer.principal)
        if left == 0:
            task.end("FAILED", self.now, worker_id=writer.worker_id, principal=writer.principal)
            task.error = error
            answer = Failure("FAILED", 0, None, None)
        else:
            task.unlock("SCHEDULED" if longest else "READY")
            task.retries, task.run_at = left, self.now + longest
            task.turn_at = task.run_at
            if task.state == "READY":
                self.ring([task.task_type])
            answer = Failure(task.state, left, self.now + shortest, self.now + longest)
        self.past["failed", _named(writer, task.token)] = answer
        return answer

    def complete_all(self, writes: Sequence[tuple[Writer, dict[str, Any]]]) -> list[tuple[str | None, str | None]]:
        """Every write by itself, in turn: why it was refused, and the state its task was in after it."""
        answers = []
        for writer, result in writes:
            answer = _answer(self.complete, writer, result)
            code = answer.code if isinstance(answer, Refusal) else None
            answers.append((code, None if code == "not_found" else self.tasks[writer.task_id].state))
        return answers

    def fail_all(self, writes: Sequence[tuple[Writer, str, int | None, int | None]]) -> list[Failure | Refusal]:
        """Every write by itself, in turn."""
        return [_answer(self.fail, *write) for write in writes]

    def release(self, writer: Writer) -> str:
        task = self._held_or_past("released", writer)
        if not isinstance(task, Task):
            return "READY"
        self._note("released", task, worker_id=writer.worker_id, principal=writer.principal)
        task.unlock("READY")
        task.attempts -= 1
        self.ring([task.task_type])
        self.past["released", _named(writer, task.token)] = "READY"
        return "READY"

    def _held_or_past(self, kind: str, writer: Writer) -> Any:
        """The task, or what the very same write was answered before."""
        try:
            return self._held(writer)
        except Refusal as refusal:
            past = self.past.get((kind, _named(writer, writer.token)))
            if past is None or refusal.code == "not_found":
                raise
            return past

    def _held(self, writer: Writer) -> Task:
        task = self._visible(writer.task_id, writer.only_types)
        if task.state == "CANCELED":
            raise Refusal("canceled")
        if not task.is_open:
            raise Refusal("already_ended")
        if task.state != "LOCKED":
            raise Refusal("lease_lost")
        if writer.token not in (None, task.token):
            raise Refusal("stale_token")
        if (task.owner, task.principal) != (writer.worker_id, writer.principal):
            raise Refusal("lease_lost")
        assert task.expires_at is not None
        if task.expires_at <= self.now:
            raise Refusal("lease_expired")
        return task

    def _visible(self, task_id: UUID, only_types: tuple[str, ...] | None) -> Task:
        task = self.tasks.get(task_id)
        if task is None or not _covers(only_types, task.task_type):
            raise Refusal("not_found")
        return task

    # what people and chores do

    def cancel(self, task_id: UUID, reason: str | None, principal: str, only_types: tuple[str, ...] | None) -> str:
        task = self._visible(task_id, only_types)
        if task.state in ("COMPLETED", "FAILED"):
            raise Refusal("already_ended")
        if task.is_open:
            self._note("canceled", task, worker_id=task.owner, principal=principal)
            task.end("CANCELED", self.now, worker_id=task.owner, principal=principal)
            task.error, task.token = reason, -1  # a new token, which the database draws
        return "CANCELED"

    def redrive(self, task_id: UUID, retries: int | None, principal: str, only_types: tuple[str, ...] | None) -> str:
        task = self._visible(task_id, only_types)
        if task.state != "FAILED":
            raise Refusal("already_ended")
        self._note("redriven", task, worker_id=task.owner, principal=principal)
        task.unlock("READY")
        task.run_at = task.turn_at = self.now
        task.token, task.redrives = -1, task.redrives + 1
        task.retries = retries if retries is not None else task.asked_retries
        task.attempts = task.expirations = 0
        task.error = task.started_at = task.ended_at = None
        self.ring([task.task_type])
        return "READY"

    def redrivable(
        self,
        task_type: str | None,
        since: datetime | None,
        before: datetime | None,
        want: int,
        only_types: tuple[str, ...] | None,
    ) -> list[UUID]:
        """The tasks that a redrive by filter takes."""
        return sorted(
            task.task_id
            for task in self.tasks.values()
            if task.state == "FAILED"
            and task.ended_at is not None
            and task_type in (None, task.task_type)
            and (since is None or task.ended_at >= since)
            and (before is None or task.ended_at < before)
            and _covers(only_types, task.task_type)
        )[:want]

    def expire_leases(self, want: int) -> tuple[int, int, int, set[str]]:
        """(expired, failed, rearmed, types with new ready work)"""
        self._ran("expire_leases")
        return self._expire(want)

    def promote_due(self, want: int) -> tuple[int, set[str]]:
        self._ran("promote_due")
        return self._promote(want)

    def _ran(self, chore: str) -> None:
        """Noted twice a second at most."""
        if chore not in self.ran_at or self.ran_at[chore] < self.now - timedelta(milliseconds=500):
            self.ran_at[chore] = self.now

    def sweep_if_late(self, want: int) -> None:
        """Workers do in their stead what chores that have not run for 3 s owe."""
        for chore, sweep in {"expire_leases": self._expire, "promote_due": self._promote}.items():
            if chore not in self.ran_at or self.ran_at[chore] <= self.now - timedelta(seconds=3):
                sweep(want)

    def _expire(self, want: int) -> tuple[int, int, int, set[str]]:
        due = [task for task in self.tasks.values() if task.looked_at is not None and task.looked_at <= self.now]
        due = self._first_due(due, lambda task: task.looked_at, want)
        lost = [task for task in due if task.expires_at is not None and task.expires_at <= self.now]
        for task in due:
            task.looked_at = task.expires_at
        failed = 0
        for task in lost:
            task.expirations += 1
            self._note("lease_lost", task, worker_id=task.owner, principal=task.principal)
            if task.expirations > task.kind.expirations:
                failed += 1
                task.end("FAILED", self.now, worker_id=task.owner, principal=task.principal)
                task.error = "lease_lost"
            else:
                task.unlock("READY")
        back = {task.task_type for task in lost if task.state == "READY"}
        self.ring(back)
        return len(lost), failed, len(due) - len(lost), back

    def _promote(self, want: int) -> tuple[int, set[str]]:
        due = [task for task in self.tasks.values() if task.state == "SCHEDULED" and task.run_at <= self.now]
        due = self._first_due(due, lambda task: task.run_at, want)
        for task in due:
            task.state = "READY"
        types = {task.task_type for task in due}
        self.ring(types)
        return len(due), types

    def _first_due(self, due: list[Task], at: Callable[[Task], Any], want: int) -> list[Task]:
        """The first of them; which of those that are due at the same time, the database has chosen."""
        due = sorted(due, key=at)
        if len(due) <= want:
            return due
        last = at(due[want - 1])
        tied, found = [task for task in due if at(task) == last], self.observed()
        earlier = [task for task in due if at(task) < last]
        chosen = [task for task in tied if found[task.task_id] != task.row()]
        assert len(earlier) + len(chosen) == want, "a sweep took more or less than it was asked for"
        return earlier + chosen

    def purge(self, older_than_ms: int, after: UUID | None, want: int) -> tuple[int, UUID | None]:
        horizon = self.now - timedelta(milliseconds=older_than_ms)
        old = sorted(task.task_id for task in self.tasks.values() if task.created_at < horizon)
        seen = [one for one in old if after is None or one > after][:want]
        gone = {one for one in seen if (ended := self.tasks[one].ended_at) is not None and ended < horizon}
        for one in gone:
            del self.tasks[one]
        self.history = Counter({line: count for line, count in self.history.items() if line[0] not in gone})
        return len(gone), seen[-1] if len(seen) == want else None

    def ring(self, types: Iterable[str]) -> None:
        self.rings += sum(self.kinds.get(name, TaskType()).rings for name in set(types))

    def _note(self, kind: str, task: Task, *, worker_id: str | None, principal: str | None) -> None:
        self.history[task.task_id, kind, task.token, task.attempts, worker_id, principal] += 1


def _policy(item: dict[str, Any]) -> dict[str, Any]:
    names = {"backoff_first_ms": "first_ms", "backoff_factor": "factor", "backoff_cap_ms": "cap_ms"}
    policy: dict[str, Any] = item.get("policy", {})
    return {names.get(name, name.removeprefix("backoff_")): value for name, value in policy.items()}


def _answer(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except Refusal as refusal:
        return refusal


def _covers(only_types: tuple[str, ...] | None, task_type: str) -> bool:
    return only_types is None or any(fnmatchcase(task_type, pattern.replace("%", "*")) for pattern in only_types)


def _named(writer: Writer, token: int | None) -> Writer:
    """The write as the timeline remembers it: by its token, whatever its writer was allowed to touch."""
    return Writer(writer.task_id, writer.worker_id, writer.principal, token)
