"""Where the token executor meets Postgres: load an instance, decide, apply; in the transaction of the caller.

    fact ──► load_instance (locks it) ──► app.process.advance ──► apply_decision

Whoever wrote a fact may advance at once, in the same transaction, behind a savepoint; the chore `advance` works in what
nobody has. Advancing an instance to which nothing has happened does nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app import exact_json
from app.cron import InvalidTiming
from app.expressions.evaluator import evaluator
from app.expressions.juel import Surroundings
from app.kinds import Kinds
from app.process.advance import advance as decide
from app.process.decision import AskPerson, Decision, DropTask, MakeTask, Note, RaiseIncident, ThrowSignal
from app.process.facts import Changed, Completed, Continued, Fact, Failed, Happened, Started, Stopped, Thrown
from app.process.graph import EventKind, Graph
from app.process.graph_json import from_json
from app.process.state import NeedsMore, Phase, Run, Scope, State, Status, Subscription, Token, Wait
from app.timers import due_at, due_next, milliseconds, time_fault
from db import call

MOST_ROUNDS: Final = 100
"""Advances of one call: what comes after is left to the chore."""

MOST_HOPS: Final = 10_000
"""Advances that follow each other by commit points and signals, with nothing to wait for between: more is a loop."""

MOST_GRAPHS: Final = 1000

_GRAPH: Final = text("select d.graph from celeriac.definition_graphs d where d.definition_id = :id")


@dataclass(frozen=True, slots=True)
class Advanced:
    """What an advance came to: the status, the task types that have new work, and other instances to advance.

    `more`: it stopped at a commit point, and goes on in a transaction of its own.
    """

    instance_id: str
    status: str
    task_types: frozenset[str] = frozenset()
    reached: tuple[str, ...] = ()
    more: bool = False


def advance(connection: Connection, instance_id: str, *, skip: bool = False) -> Advanced | None:
    """Work in all facts of an instance; None when there are none, or (`skip`) somebody else is at it."""
    done: Advanced | None = None
    for _ in range(MOST_ROUNDS):
        row = call.one(connection, "load_instance", instance_id=instance_id, skip=skip)
        loaded = _loaded(row[0])
        if loaded is None or not loaded.has_work:
            return done
        graph = _graph(connection, loaded.definition_id)
        try:
            decision = loaded.decide(graph)
        except NeedsMore:
            row = call.one(connection, "load_instance", instance_id=instance_id, whole=True)
            loaded = _loaded(row[0])
            assert loaded is not None
            decision = loaded.decide(graph)
        written = loaded.written(graph, decision)
        applied = call.one(connection, "apply_decision", instance_id=instance_id, decision=call.Json(written))
        if applied.status is None:
            continue  # work that it would have taken away has just been done: look again
        done = _joined(done, applied)
        if applied.status in (Status.COMPLETED, Status.FAILED_COMPENSATED, Status.CANCELED):
            return done
        if decision.again:
            return replace(done, more=True)
        if not (applied.facts or applied.reached):
            return done  # nothing more has happened
    return done


async def aadvance(connection: AsyncConnection, instance_id: str, *, skip: bool = False) -> Advanced | None:
    """`advance` on an AsyncConnection."""
    return await connection.run_sync(lambda sync: advance(sync, instance_id, skip=skip))


def start_waits(graph: Graph, now: datetime) -> list[dict[str, Any]]:
    """The start events of a process that something else than a person begins, as deploy_models takes them."""
    found = []
    for node in graph.starts(graph.process):
        if node.event is None or node.event.kind is EventKind.NONE:
            continue
        start: dict[str, Any] = {"node": node.id, "kind": str(node.event.kind)}
        if node.event.kind is EventKind.TIMER:
            start |= {"timing": f"{node.event.timer}:{node.event.when}"}
            start |= {"due_at": _shown(due_at(node.event.timer or "", str(node.event.when), now))}
        else:
            start |= {"name": str(node.event.name)}
        found.append(start)
    return found


def next_start(timing: str, opened_at: datetime, fired: int, now: datetime) -> datetime | None:
    """When a timer start event that has just fired is due again."""
    timer, _, when = timing.partition(":")
    return due_next(timer, when, opened_at, fired + 1, now)


@dataclass(frozen=True)
class Loaded:
    """An instance as `load_instance` gave it."""

    definition_id: str
    suspended: bool
    ended: bool
    now: datetime
    state: State
    uids: Mapping[int, str]
    opened_at: Mapping[int, datetime]
    facts: Sequence[Fact]
    consumed: Sequence[int]
    surroundings: Surroundings
    kinds: Kinds
    hops: int
    """How many advances have led to this one without anything to wait for between."""

    @property
    def has_work(self) -> bool:
        return bool(self.consumed) and not self.suspended and not self.ended

    def decide(self, graph: Graph) -> Decision:
        restless = self.hops >= MOST_HOPS
        return decide(graph, self.state, self.facts, evaluator(self.surroundings), time_fault, restless=restless)

    def written(self, graph: Graph, decision: Decision) -> str:
        """What changed, as JSON for `apply_decision`."""
        before, after = self.state, decision.state
        dropped = [token for token in before.tokens if token not in after.tokens]
        tokens = _changed(before.tokens, after.tokens)
        variables = [
            (scope.id, name, value)
            for scope in after.scopes.values()
            for name, value in self.kinds.kept(scope.variables).items()
            if scope.id not in before.scopes
            or before.scopes[scope.id].variables.get(name, self) is not value
            or self.kinds.is_news(name, value)
        ]
        document = {
            "consumed": list(self.consumed),
            "status": str(after.status),
            "outcome": None if after.outcome is None else str(after.outcome),
            "number": after.number,
            "put_scopes": [_scope(scope) for scope in _changed(before.scopes, after.scopes)],
            "drop_scopes": [scope for scope in before.scopes if scope not in after.scopes],
            "put_tokens": [self._token(token) for token in tokens],
            "drop_tokens": dropped,
            "put_variables": [self._variable(*one) for one in variables],
            "files": sorted(self._files([*variables, *((t.id, n, v) for t in tokens for n, v in t.variables.items())])),
            "put_waits": [self._wait(graph, wait) for wait in _changed(before.waits, after.waits)],
            "drop_waits": [wait for wait in before.waits if wait not in after.waits],
            "put_undos": [_undo(one) for one in _changed(before.subscriptions, after.subscriptions)],
            "drop_undos": [one for one in before.subscriptions if one not in after.subscriptions],
            "put_runs": [_run(run) for run in _changed(before.runs, after.runs)],
            "drop_runs": [run for run in before.runs if run not in after.runs],
            "make_tasks": [
                self._task(a) for a in decision.actions if isinstance(a, MakeTask) and a.token in after.tokens
            ],
            "ask_people": [
                self._asked(a) for a in decision.actions if isinstance(a, AskPerson) and a.token in after.tokens
            ],
            "drop_tasks": [
                self.uids[action.token]
                for action in decision.actions
                if isinstance(action, DropTask) and action.token in self.uids
            ],
            "incidents": [
                {"token": a.token, "node": a.node, "kind": a.kind, "message": a.message}
                for a in _standing_incidents(decision)
            ],
            "signals": [self._signal(a) for a in decision.actions if isinstance(a, ThrowSignal)],
            "again": list(decision.again),
            "hops": self.hops + 1,
            "unstuck": any(token.stuck and after.tokens.get(token.id) is not token for token in before.tokens.values()),
            "notes": [
                {"what": a.what, "node": a.node, "token": a.token, "host": a.host}
                for a in decision.actions
                if isinstance(a, Note)
            ],
        }
        return exact_json.dumps(document)

    def _asked(self, action: AskPerson) -> dict[str, Any]:
        duty = {
            "name": action.name, "description": action.description, "priority": action.priority,
            "form_key": action.form_key, "candidate_users": list(action.candidate_users),
            "candidate_groups": list(action.candidate_groups), "due": _shown(self._time(action.due)),
            "follow_up": _shown(self._time(action.follow_up)),
        }  # fmt: skip
        known = {name: value for name, value in duty.items() if value not in (None, [])}
        return {"token": action.token, "assignee": action.assignee, "duty": known}

    def _time(self, text_: str | None) -> datetime | None:
        """Of a date or a duration; None for what is neither: nobody waits for it."""
        try:
            return None if text_ is None else due_at("duration", text_, self.now)
        except InvalidTiming:
            return None

    def _variable(self, scope: int, name: str, value: Any) -> list[Any]:
        kind = self.kinds.of(name, value)
        return [scope, name, value, kind.type, kind.info]

    def _token(self, token: Token) -> dict[str, Any]:
        variables = self.kinds.kept(token.variables)
        return {
            "id": token.id, "scope": token.scope, "undoes": token.undoes, "run": token.run, "stuck": token.stuck,
            "phase": str(token.phase), "node": token.node, "via": token.via, "variables": variables,
            "types": self.kinds.types(variables) or None,
        }  # fmt: skip

    def _files(self, variables: Iterable[tuple[int, str, Any]]) -> set[str]:
        """The files that File values name: the instance keeps them."""
        return {
            value["file"]
            for _, name, value in variables
            if isinstance(value, dict) and self.kinds.of(name, value).type == "File" and "file" in value
        }

    def _task(self, action: MakeTask) -> dict[str, Any]:
        asked: dict[str, Any] = {
            "token": action.token, "task_type": action.topic, "variables": self.kinds.kept(action.variables),
            "again": action.again,
        }  # fmt: skip
        if action.priority is not None:
            asked["priority"] = action.priority
        if action.retry is not None:
            asked |= retries_of(action.retry)
        return asked

    def _signal(self, signal: ThrowSignal) -> dict[str, Any]:
        return {"name": signal.name, "variables": signal.variables, "types": self.kinds.types(signal.variables)}

    def _wait(self, graph: Graph, wait: Wait) -> dict[str, Any]:
        timing = None
        due: datetime | None = None
        if wait.kind is EventKind.TIMER:
            event = graph.nodes[wait.node].event
            assert event is not None
            assert event.timer is not None
            timing = wait.when
            due = self._due(event.timer, wait)
        return {
            "id": wait.id, "token": wait.token, "fired": wait.fired, "kind": str(wait.kind), "node": wait.node,
            "name": wait.name, "timing": timing, "due_at": _shown(due),
        }  # fmt: skip

    def _due(self, timer: str, wait: Wait) -> datetime | None:
        try:
            if wait.fired:
                return due_next(timer, wait.when or "", self.opened_at[wait.id], wait.fired, self.now)
            return due_at(timer, wait.when or "", self.now)
        except InvalidTiming:
            return None  # the calendar has ended since it was opened


def _loaded(text_: str | None) -> Loaded | None:
    if text_ is None:
        return None
    document = exact_json.loads(text_)
    instance = document["instance"]
    kinds = Kinds()
    variables: dict[int, dict[str, Any]] = {}
    types: dict[int, dict[str, Any]] = {}
    for scope, name, value, type_, info in document["variables"]:
        variables.setdefault(scope, {})[name] = value
        if type_ or info:
            types.setdefault(scope, {})[name] = {"type": type_, "info": info}
    variables = {scope: kinds.loaded(found, types.get(scope)) for scope, found in variables.items()}
    tokens = document["tokens"]
    state = State(
        status=Status(instance["status"]),
        number=instance["number"],
        tokens={t["id"]: _loaded_token(t, kinds) for t in tokens},
        scopes={s["id"]: Scope(**s, variables=variables.get(s["id"], {})) for s in document["scopes"]},
        waits={
            w["id"]: Wait(w["id"], w["token"], w["node"], EventKind(w["kind"]), w["name"], w["timing"], w["fired"])
            for w in document["waits"]
        },
        subscriptions={
            u["id"]: Subscription(u["id"], u["activity"], u["scope"], u["handler"], u["inner_scope"], u["used"])
            for u in document["undos"]
        },
        runs={r["id"]: Run(r["id"], tuple(r["pending"]), r["running"]) for r in document["runs"]},
        outcome=None if instance["outcome"] is None else Status(instance["outcome"]),
        whole=document["whole"],
    )
    numbers = {t["uid"]: t["id"] for t in tokens}
    facts = (_fact(fact, numbers, kinds) for fact in document["facts"])
    return Loaded(
        definition_id=instance["definition_id"],
        suspended=instance["suspended"],
        ended=instance["ended_at"] is not None,
        now=datetime.fromisoformat(document["now"]),
        state=state,
        uids={t["id"]: t["uid"] for t in tokens},
        opened_at={w["id"]: datetime.fromisoformat(w["opened_at"]) for w in document["waits"]},
        facts=[fact for fact in facts if fact is not None],
        consumed=[fact["id"] for fact in document["facts"]],
        surroundings=Surroundings(instance["business_key"], instance["id"], document["now"]),
        kinds=kinds,
        hops=max((fact["payload"].get("hops", 0) for fact in document["facts"]), default=0),
    )


def _loaded_token(row: Mapping[str, Any], kinds: Kinds) -> Token:
    known = {name: value for name, value in row.items() if name not in ("uid", "types")}
    known |= {"phase": Phase(row["phase"]), "variables": kinds.loaded(row["variables"], row["types"])}
    return Token(**known)


def _fact(row: Mapping[str, Any], numbers: Mapping[str, int], kinds: Kinds) -> Fact | None:
    """A fact, or None when it is about a token that is gone."""
    payload, kind = row["payload"], row["kind"]
    variables = kinds.told(payload.get("variables") or {}, payload.get("types"))
    local_variables = kinds.told(payload.get("local_variables") or {}, payload.get("local_types"))
    if kind == "started":
        return Started(variables, payload["start"])
    if kind == "stopped":
        return Stopped(payload["compensate"])
    if kind == "happened":
        return Happened(row["wait_id"], variables, local_variables)
    token = numbers.get(row["token_uid"])
    if token is None:
        return None
    if kind == "completed":
        return Completed(token, variables, local_variables)
    if kind == "changed":
        return Changed(token, variables, local_variables)
    if kind == "failed":
        return Failed(token, payload.get("message") or "the task failed", payload.get("undo", True))
    if kind == "thrown":
        return Thrown(token, payload["code"], payload.get("message"), variables)
    return Continued(token, payload.get("open", False))


_graphs: dict[str, Graph] = {}


def _graph(connection: Connection, definition_id: str) -> Graph:
    """The graph of a definition, which never changes: read once a process."""
    if definition_id not in _graphs:
        if len(_graphs) >= MOST_GRAPHS:
            _graphs.clear()
        _graphs[definition_id] = from_json(
            exact_json.loads(connection.execute(_GRAPH, {"id": definition_id}).scalar_one())
        )
    return _graphs[definition_id]


def _standing_incidents(decision: Decision) -> list[RaiseIncident]:
    """The last one of each token that is stuck still: what was tried again meanwhile has none."""
    tokens = decision.state.tokens
    raised = {a.token: a for a in decision.actions if isinstance(a, RaiseIncident)}
    return [raised[token] for token in raised if token in tokens and tokens[token].stuck]


def _joined(done: Advanced | None, applied: Any) -> Advanced:
    before = done or Advanced(str(applied.instance_id), applied.status)
    return replace(
        before,
        status=applied.status,
        task_types=before.task_types | frozenset(applied.task_types),
        reached=(*before.reached, *(str(one) for one in applied.reached if str(one) != before.instance_id)),
    )


def _changed(before: Mapping[int, Any], after: Mapping[int, Any]) -> list[Any]:
    return [value for key, value in after.items() if before.get(key) is not value]


def _scope(scope: Scope) -> dict[str, Any]:
    return {
        "id": scope.id, "parent": scope.parent, "host": scope.host, "alive": scope.alive, "ended": scope.ended,
        "node": scope.node,
    }  # fmt: skip


def _undo(one: Subscription) -> dict[str, Any]:
    return {
        "id": one.id, "scope": one.scope, "inner_scope": one.inner, "used": one.used, "activity": one.activity,
        "handler": one.handler,
    }  # fmt: skip


def _run(run: Run) -> dict[str, Any]:
    return {"id": run.id, "running": run.running, "pending": list(run.pending)}


def retries_of(text_: str) -> dict[str, Any]:
    """`5`, `R5/PT10M` or `PT1M,PT5M` as a task's retries and back-off; nothing for what is none of these."""
    if text_.isdecimal():
        return {"retries": max(int(text_), 1)}
    count, _, rest = text_.strip().partition("/")
    try:
        if re.fullmatch(r"R\d{1,6}", count):
            rest_ms = milliseconds(rest)
            return {"retries": max(int(count[1:]), 1), "policy": _backoff(rest_ms, rest_ms, 1)}
        waits = [milliseconds(part.strip()) for part in text_.split(",")]
    except InvalidTiming:
        return {}
    growth = (waits[-1] / max(waits[0], 1)) ** (1 / max(len(waits) - 1, 1))
    return {"retries": len(waits) + 1, "policy": _backoff(waits[0], max(waits), min(max(growth, 1.0), 100.0))}


def _backoff(first_ms: int, cap_ms: int, factor: float) -> dict[str, Any]:
    return {"backoff_first_ms": first_ms, "backoff_cap_ms": cap_ms, "backoff_factor": factor, "backoff_jitter": 0}


def _shown(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
