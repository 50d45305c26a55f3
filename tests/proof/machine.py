"""The state machine under test: random calls on the real functions, each predicted by the model.

After every step the tables must be what the model says, and the invariants must hold of the tables by themselves.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, precondition, rule

from db.call import json_list
from tests.proof.database import ProofDatabase
from tests.proof.invariants import Memory, broken
from tests.proof.model import Failure, Model, Refusal, TaskType, Writer

# mail: served by pulling workers, never registered. scan.*: registered, rung for, on a short budget.
# pay: two of a concurrency key at once.
KINDS = {
    "scan.fast": TaskType(2, lease_ms=2000, first_ms=500, factor=3, cap_ms=4000, jitter=0, expirations=1, rings=True),
    "scan.slow": TaskType(1, lease_ms=60_000, jitter=0.5, expirations=0, rings=True),
    "pay": TaskType(jitter=0, concurrency=2),
}
TYPES = ("mail", *KINDS)
# Fetched beside each other; the limited type has a fetch of its own.
TOGETHER = ("mail", "scan.fast", "scan.slow")
WORKERS, PRINCIPALS = ("w1", "w2"), ("p1", "p2")
RIGHTS = st.sampled_from([None, None, None, ("scan.%",), ("mail", "scan.f%"), ()])

items = st.fixed_dictionaries(
    {"task_type": st.sampled_from(TYPES)},
    optional={
        "fairness_key": st.sampled_from(["f1", "f2"]),
        "concurrency_key": st.sampled_from(["c1", "c1", "c2"]),
        "idempotency_key": st.sampled_from(["k1", "k2"]),
        "version": st.sampled_from([1, 2]),
        "priority": st.sampled_from([0, 1, 7]),
        "delay_ms": st.sampled_from([0, 1, 1000, 60_000]),
        "retries": st.sampled_from([1, 2, 5]),
        "variables": st.sampled_from([{}, {"n": 1}, {"a": {"ä": [1.5, None]}}]),
        "policy": st.sampled_from(
            [
                {"expirations": 0},
                {"lease_ms": 700, "backoff_first_ms": 0},
                {"backoff_factor": 1, "backoff_jitter": 0.25},
            ]
        ),
    },
)
leases_ms = st.sampled_from([1, 1000, 5000, 60_000])
results = st.sampled_from([{}, {"ok": True}])
rests_ms = st.sampled_from([None, None, 0, 1, 3000])
retries_left = st.sampled_from([None, None, 0, 3])
few = st.sampled_from([1, 2, 1000])


class TransitionMachine(RuleBasedStateMachine):
    """Every rule is one call. Bundles keep what is old: any lease ever handed out may be used again by a zombie."""

    tasks = Bundle("tasks")
    leases = Bundle("leases")

    def __init__(self, database: ProofDatabase) -> None:
        super().__init__()
        database.reset()
        self.db = database
        self.model = Model(database.now(), KINDS, database.tasks)
        self.memory = Memory()
        self.last_token = 0

    # enqueue and fetch

    @rule(target=tasks, batch=st.lists(items, min_size=1, max_size=4))
    def enqueue(self, batch: list[dict[str, Any]]) -> Any:
        self.time_passes(1)  # so that ids, which begin with their time, tell the order of creation
        answer = self.db.call("enqueue_tasks", tasks=json_list(batch), principal="p1")
        expected = self._expected(self.model.enqueue, batch)
        if isinstance(expected, str):
            assert answer == expected
            return multiple()
        assert [(row.ordinal, row.task_type, _lined_up(row.state), row.created) for row in answer] == [
            (place, item["task_type"], _lined_up(state), created)
            for place, (item, (state, created, _)) in enumerate(zip(batch, expected, strict=True))
        ]
        new = [self.model.created(row.task_id, item) for row, item in zip(answer, batch, strict=True) if row.created]
        for row, item in zip(answer, batch, strict=True):
            if "idempotency_key" in item:
                assert self.model.keys[item["task_type"], item["idempotency_key"]][0] == row.task_id
        self.model.ring(task.task_type for task in new if task.state == "READY")
        return multiple(*(task.task_id for task in new))

    @rule(
        target=leases,
        worker_id=st.sampled_from(WORKERS),
        principal=st.sampled_from(PRINCIPALS),
        types=st.lists(st.sampled_from(TOGETHER), min_size=1, max_size=3, unique=True),
        want=st.sampled_from([1, 2, 10]),
        lease_ms=st.none() | leases_ms,
        versions=st.sampled_from([None, None, {"mail": [1]}, {"mail": [2], "scan.fast": [1, 2]}]),
        only_types=st.sampled_from([None, None, None, ("scan.%",)]),
    )
    def fetch(
        self,
        worker_id: str,
        principal: str,
        types: list[str],
        want: int,
        lease_ms: int | None,
        versions: dict[str, list[int]] | None,
        only_types: tuple[str, ...] | None,
    ) -> Any:
        answer = self.db.call(
            "fetch_tasks",
            worker_id=worker_id,
            task_types=types,
            max_tasks=want,
            lock_duration_ms=lease_ms,
            versions=versions,
            principal=principal,
            only_types=_array(only_types),
        )
        if only_types is not None and "mail" in types:
            assert answer == "forbidden"
            return multiple()
        for taken in self.model.fetch(types, want, versions, {row.task_id for row in answer}):
            self._check_order([row for row in answer if row.task_id in taken])
        self._accept_tokens([row.fencing_token for row in answer])
        return multiple(*(self._handed_over(row, worker_id, principal, lease_ms) for row in answer))

    @rule(
        target=tasks,
        key=st.sampled_from(["c1", "c2"]),
        priorities=st.lists(st.sampled_from([0, 7]), min_size=3, max_size=4),
    )
    def enqueue_behind_each_other(self, key: str, priorities: list[int]) -> Any:
        return self.enqueue([{"task_type": "pay", "concurrency_key": key, "priority": one} for one in priorities])

    @rule(
        target=leases,
        worker_id=st.sampled_from(WORKERS),
        want=st.sampled_from([1, 2, 10]),
        lease_ms=st.sampled_from([None, None, None, 1, 5000]),
        done=st.none() | leases,
    )
    def fetch_limited(self, worker_id: str, want: int, lease_ms: int | None, done: Writer | None) -> Any:
        """Of a type with a limit a key; at times in one call with a completion, which may free a slot."""
        asked = {"worker_id": worker_id, "task_types": ["pay"], "max_tasks": want, "lock_duration_ms": lease_ms}
        if done is None:
            answer = self.db.call("fetch_tasks", **asked, principal="p1")
        else:
            write = _sent_by(Writer(done.task_id, worker_id, "p1", done.token), done)
            items = json_list([_item(write) | {"variables": {}}])
            first, *answer = self.db.call("complete_and_fetch", items=items, **asked, principal="p1")
            ((code, _),) = self.model.complete_all([(write, {})])
            assert (first.ordinal, first.code) == (0, code)
        self.model.fetch_limited("pay", want, {row.task_id for row in answer})
        self._accept_tokens([row.fencing_token for row in answer])
        return multiple(*(self._handed_over(row, worker_id, "p1", lease_ms) for row in answer))

    def _check_order(self, answer: Any) -> None:
        """Within a stream, tasks come in the order of the queue."""
        for stream in {(row.task_type, row.version) for row in answer}:
            got = [row.task_id for row in answer if (row.task_type, row.version) == stream]
            tasks = self.model.tasks
            assert got == sorted(got, key=lambda one: (-tasks[one].priority, tasks[one].turn_at, one))

    def _handed_over(self, row: Any, worker_id: str, principal: str, lease_ms: int | None) -> Writer:
        lasts = self.model.leased(row.task_id, worker_id, principal, row.fencing_token, lease_ms)
        task = self.model.tasks[row.task_id]
        assert (row.lock_duration_ms, row.lock_expires_at, row.retries, row.attempt, row.priority, row.version) == (
            *(lasts, task.expires_at, task.retries, task.attempts, task.priority, task.version),
        )
        return Writer(row.task_id, worker_id, principal, row.fencing_token)

    def _accept_tokens(self, tokens: Sequence[int]) -> None:
        assert len(set(tokens)) == len(tokens)
        assert all(token > self.last_token for token in tokens), "a fencing token was drawn twice or is an old one"
        self.last_token = max(self.last_token, *tokens) if tokens else self.last_token

    # what workers write: with any lease that ever was, and as anybody

    @rule(
        target=leases,
        lease=leases,
        worker_id=st.sampled_from([None, None, *WORKERS]),
        principal=st.sampled_from([None, None, *PRINCIPALS]),
        with_token=st.booleans(),
        only_types=RIGHTS,
    )
    def pretend(
        self,
        lease: Writer,
        worker_id: str | None,
        principal: str | None,
        with_token: bool,
        only_types: tuple[str, ...] | None,
    ) -> Writer:
        """Somebody got hold of a lease, or lost a part of it."""
        token = lease.token if with_token else None
        return Writer(lease.task_id, worker_id or lease.worker_id, principal or lease.principal, token, only_types)

    @rule(lease=leases, lease_ms=leases_ms)
    def extend(self, lease: Writer, lease_ms: int) -> None:
        answer = self.db.call("extend_lease", lock_duration_ms=lease_ms, **_as_written(lease))
        expected = self._expected(self.model.extend, lease, lease_ms)
        if isinstance(expected, str):
            assert answer == expected
        else:
            assert [tuple(row) for row in answer] == [(lease.task_id, expected, lease_ms)]

    @rule(lease=leases, result=results)
    def complete(self, lease: Writer, result: dict[str, Any]) -> None:
        answer = self.db.call("complete_task", variables=result, **_as_written(lease))
        self._check_state(answer, lease.task_id, self._expected(self.model.complete, lease, result))

    @rule(lease=consumes(leases), result=results)
    def complete_and_forget(self, lease: Writer, result: dict[str, Any]) -> None:
        self.complete(lease, result)

    @rule(
        lease=leases, error=st.sampled_from(["boom", ""]), rest_ms=rests_ms, retries=st.sampled_from([None, None, 0, 3])
    )
    def fail(self, lease: Writer, error: str, rest_ms: int | None, retries: int | None) -> None:
        answer = self.db.call("fail_task", error=error, retry_after_ms=rest_ms, retries=retries, **_as_written(lease))
        (expected,) = self.model.fail_all([(lease, error, rest_ms, retries)])
        if isinstance(expected, Refusal):
            assert answer == expected.code
        else:
            self._check_failure(answer[0], expected)

    @rule(lease=leases)
    def release(self, lease: Writer) -> None:
        answer = self.db.call("release_task", **_as_written(lease))
        self._check_state(answer, lease.task_id, self._expected(self.model.release, lease))

    @rule(batch=st.lists(st.tuples(leases, results), min_size=1, max_size=5))
    def complete_batch(self, batch: list[tuple[Writer, dict[str, Any]]]) -> None:
        first = batch[0][0]
        writes = [(_sent_by(first, lease), result) for lease, result in batch]
        sent = [_item(lease) | {"variables": result} for lease, result in writes]
        answer = self.db.call("complete_tasks", items=json_list(sent), **_sender(first))
        expected = self.model.complete_all(writes)
        assert [row.task_id for row in answer] == [lease.task_id for lease, _ in writes]
        assert [(row.code, _lined_up(row.state)) for row in answer] == [
            (code, _lined_up(state)) for code, state in expected
        ]

    @rule(batch=st.lists(st.tuples(leases, rests_ms, retries_left), min_size=1, max_size=5))
    def fail_batch(self, batch: list[tuple[Writer, int | None, int | None]]) -> None:
        first = batch[0][0]
        writes = [(_sent_by(first, lease), "boom", rest_ms, retries) for lease, rest_ms, retries in batch]
        sent = [
            _item(lease) | {"error": error, "retry_after_ms": rest_ms, "retries": retries}
            for lease, error, rest_ms, retries in writes
        ]
        answer = self.db.call("fail_tasks", items=json_list(sent), **_sender(first))
        expected = self.model.fail_all(writes)
        assert [row.code for row in answer] == [_code(one) for one in expected]
        for row, one in zip(answer, expected, strict=True):
            if isinstance(one, Failure):
                self._check_failure(row, one)

    # what people and chores do

    @rule(task_id=tasks, reason=st.sampled_from([None, "no more"]), only_types=RIGHTS)
    def cancel(self, task_id: UUID, reason: str | None, only_types: tuple[str, ...] | None) -> None:
        answer = self.db.call(
            "cancel_task", task_id=task_id, reason=reason, principal="p9", only_types=_array(only_types)
        )
        self._check_state(answer, task_id, self._expected(self.model.cancel, task_id, reason, "p9", only_types))

    @rule(task_id=tasks, retries=st.sampled_from([None, 1, 4]), only_types=RIGHTS)
    def redrive(self, task_id: UUID, retries: int | None, only_types: tuple[str, ...] | None) -> None:
        answer = self.db.call(
            "redrive_task", task_id=task_id, retries=retries, principal="p9", only_types=_array(only_types)
        )
        self._check_state(answer, task_id, self._expected(self.model.redrive, task_id, retries, "p9", only_types))

    @precondition(lambda self: any(task.state == "FAILED" for task in self.model.tasks.values()))
    @rule(
        task_type=st.sampled_from([None, *TYPES]),
        since_s=st.sampled_from([None, 0, 10]),
        before_s=st.sampled_from([None, 0, 10]),
        want=few,
        only_types=RIGHTS,
    )
    def redrive_by_filter(
        self,
        task_type: str | None,
        since_s: int | None,
        before_s: int | None,
        want: int,
        only_types: tuple[str, ...] | None,
    ) -> None:
        since, before = self._ago(since_s), self._ago(before_s)
        chosen = self.model.redrivable(task_type, since, before, want, only_types)
        answer = self.db.call(
            "redrive_tasks",
            task_type=task_type,
            failed_after=since,
            failed_before=before,
            max_tasks=want,
            principal="p9",
            only_types=_array(only_types),
        )
        assert sorted(row.task_id for row in answer) == chosen
        for task_id in chosen:
            self.model.redrive(task_id, None, "p9", only_types)

    @rule(want=few)
    def expire_leases(self, want: int) -> None:
        (answer,) = self.db.call("expire_leases", max_tasks=want)
        found = (answer.expired, answer.failed, answer.rearmed, set(answer.task_types))
        assert found == self.model.expire_leases(want)

    @rule(want=few)
    def promote_due(self, want: int) -> None:
        (answer,) = self.db.call("promote_due", max_tasks=want)
        # Who is let in may be of a type that nothing was promoted of.
        promoted, types = self.model.promote_due(want)
        assert (answer.promoted, set(answer.task_types) | {"pay"}) == (promoted, types | {"pay"})

    @rule(types=st.lists(st.sampled_from([*TYPES, "unheard of"]), max_size=4, unique=True), want=few)
    def ready_types(self, types: list[str], want: int) -> None:
        """The idle look of an API process does a little upkeep as well."""
        answer = self.db.call("ready_types", task_types=types, max_tasks=1000)
        self.model.sweep_if_late(100)
        ready = [
            task.task_type for task in self.model.tasks.values() if task.state == "READY" and task.task_type in types
        ]
        ready = [name for name in ready if name != "pay"]
        answer = [row for row in answer if row.task_type != "pay"]
        assert {row.task_type: row.ready for row in answer} == {name: ready.count(name) for name in ready}

    @rule(older_than_ms=st.sampled_from([0, 1000, 60_000]), after=st.none() | tasks, want=few)
    def purge_ended(self, older_than_ms: int, after: UUID | None, want: int) -> None:
        (answer,) = self.db.call("purge_ended", older_than_ms=older_than_ms, after=after, max_tasks=want)
        assert (answer.purged, answer.last_id) == self.model.purge(older_than_ms, after, want)

    @rule(ms=st.sampled_from([1, 10, 1000, 1000, 5000, 60_000, 600_000]))
    def time_passes(self, ms: int) -> None:
        by = timedelta(milliseconds=ms)
        self.db.advance(by)
        self.model.now += by

    # after every step

    @invariant()
    def the_tables_are_what_the_model_says(self) -> None:
        found = self.db.tasks()
        self.model.learn_who_is_let_in()
        self._learn_tokens(found)
        assert found == {task_id: task.row() for task_id, task in self.model.tasks.items()}
        assert self.db.history() == self.model.history
        assert self.db.keys() == {key: first for key, (first, _) in self.model.keys.items()}
        assert self.db.rings() == self.model.rings

    @invariant()
    def the_invariants_hold(self) -> None:
        assert broken(self.db.connection) == []
        self.memory.look(self.db.connection)

    # how answers are compared

    def _expected(self, call: Any, *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except Refusal as refusal:
            return refusal.code

    def _check_state(self, answer: Any, task_id: UUID, expected: str) -> None:
        found = answer if isinstance(answer, str) else [(row.task_id, row.state) for row in answer]
        assert found == (expected if isinstance(answer, str) else [(task_id, expected)])

    def _check_failure(self, row: Any, expected: Failure) -> None:
        assert (row.state, row.retries) == (expected.state, expected.retries)
        if expected.at_least is None or expected.at_most is None:
            assert row.run_at is None
            return
        assert expected.at_least <= row.run_at <= expected.at_most
        self._adopt_run_at(row.task_id, expected.at_most, row.run_at)

    def _adopt_run_at(self, task_id: UUID, nominal: datetime, chosen: datetime) -> None:
        """The jitter is the database's to choose."""
        task = self.model.tasks[task_id]
        if task.is_open and task.run_at == nominal:
            task.run_at = task.turn_at = chosen

    def _learn_tokens(self, found: dict[UUID, tuple[Any, ...]]) -> None:
        place = 5
        drawn = {task_id: found[task_id][place] for task_id, task in self.model.tasks.items() if task.token == -1}
        self._accept_tokens(list(drawn.values()))
        for task_id, token in drawn.items():
            self.model.tasks[task_id].token = token

    def _ago(self, seconds: int | None) -> datetime | None:
        return None if seconds is None else self.model.now - timedelta(seconds=seconds)


def _array(only_types: tuple[str, ...] | None) -> list[str] | None:
    return None if only_types is None else list(only_types)


def _as_written(lease: Writer) -> dict[str, Any]:
    return {"task_id": lease.task_id, "fencing_token": lease.token} | _sender(lease)


def _sender(lease: Writer) -> dict[str, Any]:
    return {"worker_id": lease.worker_id, "principal": lease.principal, "only_types": _array(lease.only_types)}


def _sent_by(sender: Writer, lease: Writer) -> Writer:
    """A batch has one sender, whoever held the leases in it."""
    return Writer(lease.task_id, sender.worker_id, sender.principal, lease.token, sender.only_types)


def _item(lease: Writer) -> dict[str, Any]:
    return {"task_id": str(lease.task_id)} | ({} if lease.token is None else {"fencing_token": lease.token})


def _lined_up(state: str | None) -> str | None:
    """Which of the tasks of a limited key is READY and which BLOCKED is not said by every answer."""
    return "READY" if state == "BLOCKED" else state


def _code(answer: Any) -> str | None:
    return answer.code if isinstance(answer, Refusal) else None
