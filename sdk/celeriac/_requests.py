"""Every call of the HTTP API as a value: built here, sent by whoever has a connection, blocking or not.

A builder does no I/O. It says what to send, how long the server may take to answer on purpose (`wait_ms`), whether the
call may be sent again when its answer was lost (`repeatable`), and how to read the answer.

Repeatable are calls that come to the same when made twice: reading, calls under a fencing token (by which the server
recognises the call), calls with an idempotency key, settings. Not repeatable are fetching (a lost answer holds leased
tasks, which come back by themselves when their leases run out) and enqueueing without a key.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar, Unpack
from urllib.parse import quote

from celeriac import _json
from celeriac.values import (
    BatchResult,
    Completion,
    DefinitionPage,
    Deployed,
    EnqueuedTask,
    ExtendedLease,
    FailedAttempt,
    Failure,
    HistoryPage,
    IncidentPage,
    InstancePage,
    InstanceStatus,
    NewTask,
    OperationPage,
    ResolvedIncident,
    ResolvedOperation,
    SchedulePage,
    SentSignal,
    StartedInstance,
    StepPage,
    Task,
    TaskOptions,
    TaskPage,
    TaskState,
    ThrownEvent,
    milliseconds,
    period,
    read,
    signal_fields,
    with_zone,
    without_none,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of status 2xx: its decoded JSON and its headers (names in lower case)."""

    status: int
    json: Any
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """One call of the API; `read` makes the result from the answer."""

    method: str
    path: str
    read: Callable[[Answer], T]
    body: bytes | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = False
    wait_ms: int = 0
    content_type: str = "application/json"
    is_text: bool = False
    """The answer is text, not JSON."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """Tasks from a poll; `waited_ms` is how long the server held the poll before it took them, if it said so."""

    tasks: list[Task]
    waited_ms: int | None


def fetch_tasks(
    worker_id: str,
    task_types: Sequence[str],
    *,
    max_tasks: int = 1,
    lock_duration_ms: int | None = None,
    wait_ms: int = 0,
    versions: Mapping[str, Sequence[int]] | None = None,
) -> Request[list[Task]]:
    """Lease up to `max_tasks` tasks of these types, best first; waits up to `wait_ms` (at most 60 000) for one.

    `lock_duration_ms` is the lease (None: that of the task type). An empty list is a normal answer.
    """
    polling = poll(worker_id, task_types, max_tasks, lock_duration_ms, wait_ms, versions)
    return replace(polling, read=lambda answer: [read(Task, item) for item in answer.json])  # type: ignore[arg-type, return-value]


def poll(
    worker_id: str,
    task_types: Sequence[str],
    max_tasks: int,
    lock_duration_ms: int | None,
    wait_ms: int,
    versions: Mapping[str, Sequence[int]] | None,
) -> Request[Fetched]:
    """`fetch_tasks` for the worker, which also wants to know when the leases began."""
    body = without_none(
        worker_id=worker_id,
        task_types=list(task_types),
        max_tasks=max_tasks,
        lock_duration_ms=lock_duration_ms,
        wait_ms=wait_ms,
        versions=versions,
    )
    return Request("POST", "/v1/external-tasks/fetch-and-lock", read_fetched, body=_json.encode(body), wait_ms=wait_ms)


def read_fetched(answer: Answer) -> Fetched:
    waited = answer.headers.get("celeriac-waited-ms", "")
    return Fetched(
        tasks=[read(Task, item) for item in answer.json], waited_ms=int(waited) if waited.isdecimal() else None
    )


def complete_task(
    task_id: str, *, worker_id: str, fencing_token: int | None = None, variables: Mapping[str, Any] | None = None
) -> Request[TaskState]:
    """End the task with a result. The same call again is answered the same; another result is refused."""
    body = without_none(worker_id=worker_id, fencing_token=fencing_token, variables=variables)
    return _worker_call(task_id, "complete", body, TaskState)


def fail_task(
    task_id: str,
    *,
    worker_id: str,
    error: str,
    fencing_token: int | None = None,
    retry_after: float | timedelta | None = None,
    retries: int | None = None,
) -> Request[FailedAttempt]:
    """Report a failed attempt. The server takes one retry away, or sets `retries`; at 0 the task is FAILED for good.

    `retry_after` is in seconds or a timedelta (None: the back-off of the task type).
    """
    body = without_none(
        worker_id=worker_id,
        fencing_token=fencing_token,
        error=error,
        retry_after_ms=milliseconds(retry_after, "retry_after"),
        retries=retries,
    )
    return _worker_call(task_id, "fail", body, FailedAttempt)


def extend_lease(
    task_id: str, *, worker_id: str, lock_duration_ms: int, fencing_token: int | None = None
) -> Request[ExtendedLease]:
    """Let the lease end `lock_duration_ms` from now."""
    body = without_none(worker_id=worker_id, fencing_token=fencing_token, lock_duration_ms=lock_duration_ms)
    return _worker_call(task_id, "extend-lock", body, ExtendedLease)


def release_task(task_id: str, *, worker_id: str, fencing_token: int | None = None) -> Request[TaskState]:
    """Give the task back unharmed: it is READY again and the attempt does not count."""
    body = without_none(worker_id=worker_id, fencing_token=fencing_token)
    return _worker_call(task_id, "unlock", body, TaskState)


def _worker_call(task_id: str, verb: str, body: Mapping[str, Any], kind: type[T]) -> Request[T]:
    # Without a token a repeated call could meet a later lease of the same worker and act on that one.
    return Request(
        "POST",
        f"/v1/external-tasks/{_segment(task_id)}/{verb}",
        lambda answer: read(kind, answer.json),
        body=_json.encode(body),
        repeatable="fencing_token" in body,
    )


def throw_bpmn_error(
    task_id: str,
    *,
    worker_id: str,
    code: str,
    message: str | None = None,
    variables: Mapping[str, Any] | None = None,
    fencing_token: int | None = None,
) -> Request[TaskState]:
    """End the task of a process with a business error of this `code`, which the model may catch."""
    body = without_none(
        worker_id=worker_id, fencing_token=fencing_token, code=code, message=message, variables=variables
    )
    return _worker_call(task_id, "bpmn-error", body, TaskState)


def complete_tasks(worker_id: str, completions: Sequence[Completion]) -> Request[list[BatchResult]]:
    """Complete up to 1 000 tasks, each on its own: look at each result's `code`."""
    return _batch("complete", worker_id, completions)


def fail_tasks(worker_id: str, failures: Sequence[Failure]) -> Request[list[BatchResult]]:
    """Report up to 1 000 failed attempts, each on its own: look at each result's `code`."""
    return _batch("fail", worker_id, failures)


def _batch(verb: str, worker_id: str, items: Sequence[Completion | Failure]) -> Request[list[BatchResult]]:
    body = {"worker_id": worker_id, "tasks": [item.to_json() for item in items]}
    return Request(
        "POST",
        f"/v1/external-tasks/{verb}",
        lambda answer: [read(BatchResult, result) for result in answer.json["results"]],
        body=_json.encode(body),
        repeatable=all(item.fencing_token is not None for item in items),
    )


def enqueue_task(
    task_type: str,
    variables: Mapping[str, Any] | None = None,
    **options: Unpack[TaskOptions],
) -> Request[EnqueuedTask]:
    """Create a task; TaskOptions has the fields. With an `idempotency_key` a second call finds the first one's task."""
    task = NewTask(task_type, variables or {}, **options)
    return Request(
        "POST",
        "/v1/tasks",
        lambda answer: read(EnqueuedTask, answer.json),
        body=_json.encode(task.to_json()),
        repeatable=task.idempotency_key is not None,
    )


def enqueue_tasks(tasks: Sequence[NewTask]) -> Request[list[EnqueuedTask]]:
    """Create up to 5 000 tasks, all or none; results come in the order of `tasks`."""
    return Request(
        "POST",
        "/v1/tasks/batch",
        lambda answer: [read(EnqueuedTask, item) for item in answer.json["tasks"]],
        body=_json.encode({"tasks": [task.to_json() for task in tasks]}),
        repeatable=all(task.idempotency_key is not None for task in tasks),
    )


def get_task(task_id: str) -> Request[dict[str, Any]]:
    """One task with its variables, result, attempts and timeline."""
    return _get(f"/v1/tasks/{_segment(task_id)}")


def list_tasks(
    *,
    task_type: str | None = None,
    state: str | None = None,
    business_key: str | None = None,
    idempotency_key: str | None = None,
    sort: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Request[TaskPage]:
    """A page of tasks; `sort` is created_at or -created_at, `state` one of READY, SCHEDULED, LOCKED, …"""
    query = _query(
        task_type=task_type,
        state=state,
        business_key=business_key,
        idempotency_key=idempotency_key,
        sort=sort,
        limit=limit,
        cursor=cursor,
    )
    return Request("GET", "/v1/tasks", lambda answer: read(TaskPage, answer.json), query=query, repeatable=True)


def list_steps(task_id: str, *, limit: int | None = None, cursor: str | None = None) -> Request[StepPage]:
    """A page of what a durable task has done so far, in the order of its code, with the results."""
    query = _query(limit=limit, cursor=cursor)
    path = f"/v1/tasks/{_segment(task_id)}/steps"
    return Request("GET", path, lambda answer: read(StepPage, answer.json), query=query, repeatable=True)


def cancel_task(task_id: str, *, reason: str | None = None, compensate: bool = False) -> Request[TaskState]:
    """Cancel an open task; whoever holds it is told. Twice is answered the same; an ended task is refused.

    With `compensate` what it has done is undone first, by its own compensations; the answer is UNDOING until then.
    """
    body = without_none(reason=reason) | ({"compensate": True} if compensate else {})
    return _manage(f"{_segment(task_id)}/cancel", body, repeatable=True)


def redrive_task(task_id: str, *, retries: int | None = None) -> Request[TaskState]:
    """Make a FAILED task READY again, with `retries` (None: those of its type)."""
    return _manage(f"{_segment(task_id)}/redrive", without_none(retries=retries), repeatable=False)


def _manage(path: str, body: Mapping[str, Any], *, repeatable: bool) -> Request[TaskState]:
    return Request(
        "POST",
        f"/v1/tasks/{path}",
        lambda answer: read(TaskState, answer.json),
        body=_json.encode(body),
        repeatable=repeatable,
    )


def redrive_tasks(
    *,
    task_type: str | None = None,
    failed_after: datetime | None = None,
    failed_before: datetime | None = None,
    max_tasks: int = 1000,
) -> Request[list[str]]:
    """Make FAILED tasks READY again, oldest failure first; returns the ids of those that were."""
    body = without_none(
        task_type=task_type,
        failed_after=failed_after.isoformat() if failed_after else None,
        failed_before=failed_before.isoformat() if failed_before else None,
        max_tasks=max_tasks,
    )
    return Request("POST", "/v1/tasks/redrive", lambda answer: list(answer.json["task_ids"]), body=_json.encode(body))


def send_signal(
    topic: str,
    key: str | None = None,
    payload: Any = None,
    *,
    ttl: float | timedelta | None = None,
    dedupe_id: str | None = None,
    broadcast: bool = False,
) -> Request[SentSignal]:
    """Send a signal: the task that has waited longest for this topic and key gets it, or the first that will.

    It is kept for `ttl` (seconds or a timedelta; 7 days when None). A `broadcast` is for every task that waits now or
    within `ttl`. A second call with the same `dedupe_id` (per topic and key) is answered as the first one was; with
    another payload it is refused. `payload` is any JSON of at most 1 MiB.
    """
    return Request(
        "POST",
        "/v1/signals",
        lambda answer: read(SentSignal, answer.json),
        body=_json.encode(signal_fields(topic, key, payload, ttl, dedupe_id, broadcast)),
        repeatable=dedupe_id is not None,
    )


def get_incident(incident_id: str) -> Request[dict[str, Any]]:
    """One incident: what a person must look at, or had to."""
    return _get(f"/v1/incidents/{_segment(incident_id)}")


def list_incidents(
    *,
    state: str | None = None,
    kind: str | None = None,
    task_id: str | None = None,
    task_type: str | None = None,
    instance_id: str | None = None,
    sort: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Request[IncidentPage]:
    """A page of incidents; `state` is OPEN (what you get when None), RESOLVED or ALL."""
    query = _query(
        state=state,
        kind=kind,
        task_id=task_id,
        task_type=task_type,
        instance_id=instance_id,
        sort=sort,
        limit=limit,
        cursor=cursor,
    )
    return Request("GET", "/v1/incidents", lambda answer: read(IncidentPage, answer.json), query=query, repeatable=True)


def resolve_incident(incident_id: str, resolution: str, *, note: str | None = None) -> Request[ResolvedIncident]:
    """Decide about an incident: retry or fail (other_code), retry or skip (undo_failed), retry (of an instance).

    What it is about goes on at once.

    One about an operation is decided by `resolve_operation`.
    """
    path = f"/v1/incidents/{_segment(incident_id)}/resolve"
    body = _json.encode(without_none(resolution=resolution, note=note))
    return Request("POST", path, lambda answer: read(ResolvedIncident, answer.json), body=body, repeatable=True)


def get_operation(operation_id: str) -> Request[dict[str, Any]]:
    """One operation: a step with an effect outside, its plan, attempts and outcome."""
    return _get(f"/v1/operations/{_segment(operation_id)}")


def list_operations(
    *,
    state: str | None = None,
    task_id: str | None = None,
    task_type: str | None = None,
    sort: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Request[OperationPage]:
    """A page of operations; `state` is STARTED, DONE, NOT_DONE, UNKNOWN (a person must decide) or FAILED."""
    query = _query(state=state, task_id=task_id, task_type=task_type, sort=sort, limit=limit, cursor=cursor)
    return Request(
        "GET", "/v1/operations", lambda answer: read(OperationPage, answer.json), query=query, repeatable=True
    )


def resolve_operation(
    operation_id: str, outcome: str, *, result: Any = None, note: str | None = None
) -> Request[ResolvedOperation]:
    """Decide what became of an operation that is UNKNOWN: DONE (with its result), NOT_DONE (do it again) or FAILED."""
    path = f"/v1/operations/{_segment(operation_id)}/resolve"
    body = _json.encode(without_none(outcome=outcome, result=result, note=note))
    # One that is done again may be UNKNOWN again when the repeated call comes: that is another decision.
    repeatable = outcome != "NOT_DONE"
    return Request("POST", path, lambda answer: read(ResolvedOperation, answer.json), body=body, repeatable=repeatable)


def register_worker(
    worker_id: str,
    *,
    task_types: Sequence[str],
    kind: str = "external",
    versions: Mapping[str, Sequence[int]] | None = None,
    details: Mapping[str, Any] | None = None,
) -> Request[dict[str, Any]]:
    """Say that this worker lives and what it can run; again every few seconds, so that people see it."""
    body = without_none(kind=kind, task_types=list(task_types), versions=versions, details=details)
    return _put(f"/v1/workers/{_segment(worker_id)}", body)


def register_task_type(name: str, settings: Mapping[str, Any]) -> Request[dict[str, Any]]:
    """Set the defaults of a task type: lease_ms, retries, …, delivery, queue; concurrency, rate_tasks, rate_ms."""
    return _put(f"/v1/task-types/{_segment(name)}", settings)


def list_task_types() -> Request[Any]:
    """All task types with their defaults."""
    return _get("/v1/task-types")


def put_schedule(
    name: str,
    task_type: str,
    variables: Mapping[str, Any] | None = None,
    *,
    cron: str | None = None,
    every: str | float | timedelta | None = None,
    time_zone: str | None = None,
    anchor_at: datetime | None = None,
    catch_up: str | None = None,
    slot_variable: str | None = None,
    **options: Unpack[TaskOptions],
) -> Request[dict[str, Any]]:
    """Enqueue such a task at each slot from now on; the same call again, at every start of a program, changes nothing.

    Slots: `cron` (five fields, or six: seconds first) on the clocks of `time_zone`, or `every`: seconds, a timedelta
    or an ISO 8601 period such as P1M, counted from `anchor_at`. `catch_up` says what becomes of slots that nobody
    fired in time: one (the last of them), all, none. The task finds its slot in the variable `slot_variable`. Options
    are those of a task, without `idempotency_key`, `delay` and `run_at`.
    """
    body = without_none(
        task=NewTask(task_type, variables or {}, **options).to_json(),
        cron=cron,
        every=every if every is None or isinstance(every, str) else period(every),
        time_zone=time_zone,
        anchor_at=with_zone(anchor_at, "anchor_at"),
        catch_up=catch_up,
        slot_variable=slot_variable,
    )
    return _put(f"/v1/schedules/{_segment(name)}", body)


def get_schedule(name: str) -> Request[dict[str, Any]]:
    """One schedule: its timing and task, next and last slot, and how many slots were fired and missed."""
    return _get(f"/v1/schedules/{_segment(name)}")


def list_schedules(
    *, task_type: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Request[SchedulePage]:
    """A page of schedules in the order of their names."""
    query = _query(task_type=task_type, limit=limit, cursor=cursor)
    return Request("GET", "/v1/schedules", lambda answer: read(SchedulePage, answer.json), query=query, repeatable=True)


def pause_schedule(name: str) -> Request[dict[str, Any]]:
    """Fire no more until resumed; what comes due meanwhile is neither fired nor missed."""
    return _schedule_call(name, "pause")


def resume_schedule(name: str) -> Request[dict[str, Any]]:
    """Fire again, from the next slot on; also what stands still because it could not be read."""
    return _schedule_call(name, "resume")


def delete_schedule(name: str) -> Request[None]:
    """Delete a schedule; tasks that it has enqueued go on. Raises NotFound when there is none."""
    return Request("DELETE", f"/v1/schedules/{_segment(name)}", lambda answer: None)


def _schedule_call(name: str, verb: str) -> Request[dict[str, Any]]:
    return Request("POST", f"/v1/schedules/{_segment(name)}/{verb}", lambda answer: dict(answer.json), repeatable=True)


def deploy_models(
    files: Mapping[str, bytes | str],
    *,
    name: str | None = None,
    delegates: str | None = None,
    unrunnable: str | None = None,
) -> Request[Deployed]:
    """Deploy BPMN files (by their names), all or none. Raises Invalid, whose `errors` have everything that is wrong.

    `delegates="topics"` makes Java classes and delegate expressions topics of their names, `unrunnable="ignore"` leaves
    listeners and scripts in other languages out. Files that are as deployed before make no new version.
    """
    body, content_type = _form(files)
    return Request(
        "POST",
        "/v1/process-definitions",
        lambda answer: read(Deployed, answer.json),
        body=body,
        query=_query(name=name, delegates=delegates, unrunnable=unrunnable),
        repeatable=True,
        content_type=content_type,
    )


def get_definition(definition_id: str) -> Request[Any]:
    """One process definition: key, version, topics, and what was said when it was deployed."""
    return _get(f"/v1/process-definitions/{_segment(definition_id)}")


def list_definitions(
    *,
    key: str | None = None,
    version: int | None = None,
    deployment_id: str | None = None,
    sort: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Request[DefinitionPage]:
    """A page of process definitions, every version of them, the latest deployed first."""
    query = _query(key=key, version=version, deployment_id=deployment_id, sort=sort, limit=limit, cursor=cursor)
    path = "/v1/process-definitions"
    return Request("GET", path, lambda answer: read(DefinitionPage, answer.json), query=query, repeatable=True)


def start_instance(
    process_key: str | None = None,
    variables: Mapping[str, Any] | None = None,
    *,
    version: int | None = None,
    definition_id: str | None = None,
    business_key: str | None = None,
    idempotency_key: str | None = None,
) -> Request[StartedInstance]:
    """Start an instance of a process: of its latest version, of `version`, or of the definition with this id.

    With an `idempotency_key` a second call finds the first one's instance.
    """
    body = without_none(
        process_key=process_key,
        process_version=version,
        definition_id=definition_id,
        business_key=business_key,
        idempotency_key=idempotency_key,
        variables=variables,
    )
    return Request(
        "POST",
        "/v1/process-instances",
        lambda answer: read(StartedInstance, answer.json),
        body=_json.encode(body),
        repeatable=idempotency_key is not None,
    )


def get_instance(instance_id: str) -> Request[Any]:
    """One instance: its tokens, what they wait for, variables, what can be undone, open incidents."""
    return _get(_instance(instance_id))


def list_instances(
    *,
    process_key: str | None = None,
    version: int | None = None,
    definition_id: str | None = None,
    status: str | None = None,
    suspended: bool | None = None,
    business_key: str | None = None,
    has_incident: bool | None = None,
    started_after: datetime | None = None,
    started_before: datetime | None = None,
    sort: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Request[InstancePage]:
    """A page of instances; `status` is OPEN (any that has not ended), ACTIVE, COMPENSATING, COMPLETED, …"""
    query = _query(
        process_key=process_key,
        process_version=version,
        definition_id=definition_id,
        status=status,
        suspended=None if suspended is None else str(suspended).lower(),
        business_key=business_key,
        has_incident=None if has_incident is None else str(has_incident).lower(),
        started_after=with_zone(started_after, "started_after"),
        started_before=with_zone(started_before, "started_before"),
        sort=sort,
        limit=limit,
        cursor=cursor,
    )
    path = "/v1/process-instances"
    return Request("GET", path, lambda answer: read(InstancePage, answer.json), query=query, repeatable=True)


def get_history(instance_id: str, *, limit: int | None = None, cursor: str | None = None) -> Request[HistoryPage]:
    """A page of what has happened in an instance, oldest first."""
    return Request(
        "GET",
        f"{_instance(instance_id)}/history",
        lambda answer: read(HistoryPage, answer.json),
        query=_query(limit=limit, cursor=cursor),
        repeatable=True,
    )


def get_diagram(instance_id: str) -> Request[str]:
    """The model of an instance as an SVG picture, with its tokens, counts and incidents on it."""
    path = f"{_instance(instance_id)}/diagram.svg"
    return Request("GET", path, lambda answer: str(answer.json), repeatable=True, is_text=True)


def cancel_instance(
    instance_id: str, *, reason: str | None = None, compensate: bool = False
) -> Request[InstanceStatus]:
    """Stop an instance; with `compensate` what it has done is undone first. Twice is answered the same."""
    body = without_none(reason=reason) | ({"compensate": True} if compensate else {})
    return _instance_call(instance_id, "cancel", body, repeatable=True)


def migrate_instance(
    instance_id: str, *, process_version: int | None = None, definition_id: str | None = None
) -> Request[InstanceStatus]:
    """Let an open instance go on in another version of its process. Raises Invalid, naming what does not fit."""
    body = without_none(process_version=process_version, definition_id=definition_id)
    return _instance_call(instance_id, "migrate", body, repeatable=True)


def suspend_instance(instance_id: str) -> Request[InstanceStatus]:
    """Let an instance stand still: what happens to it is kept until it is resumed."""
    return _instance_call(instance_id, "suspend", None, repeatable=True)


def resume_instance(instance_id: str) -> Request[InstanceStatus]:
    """Let a suspended instance go on."""
    return _instance_call(instance_id, "resume", None, repeatable=True)


def set_variables(
    instance_id: str, variables: Mapping[str, Any] | None = None, *, remove: Sequence[str] = ()
) -> Request[int]:
    """Set and remove variables at the root of an open instance; how many were set."""
    body = {"variables": variables or {}} | ({"remove": list(remove)} if remove else {})
    return Request(
        "PATCH",
        f"{_instance(instance_id)}/variables",
        lambda answer: int(answer.json["changed"]),
        body=_json.encode(body),
        repeatable=True,
    )


def complete_token(
    instance_id: str, token_id: str, variables: Mapping[str, Any] | None = None
) -> Request[InstanceStatus]:
    """Complete the user task or receive task that this token stands on."""
    body = {"variables": variables or {}}
    return _instance_call(instance_id, f"tokens/{_segment(token_id)}/complete", body, repeatable=False)


def send_message(
    name: str,
    *,
    business_key: str | None = None,
    correlation: Mapping[str, Any] | None = None,
    instance_id: str | None = None,
    variables: Mapping[str, Any] | None = None,
    everyone: bool = False,
    ttl: float | timedelta | None = None,
) -> Request[ThrownEvent]:
    """Deliver a BPMN message to the one instance that waits for it and fits, or begin one with it.

    `everyone`: to all that fit. With `ttl` (seconds or a timedelta) it is kept when nobody waits yet; without, that
    raises NoWaiter.
    """
    body = without_none(
        name=name,
        business_key=business_key,
        correlation=correlation,
        instance_id=instance_id,
        variables=variables,
        ttl_ms=milliseconds(ttl, "ttl"),
    )
    return _thrown("/v1/messages", body | ({"everyone": True} if everyone else {}))


def send_process_signal(
    name: str, variables: Mapping[str, Any] | None = None, *, ttl: float | timedelta | None = None
) -> Request[ThrownEvent]:
    """Send a BPMN signal to every instance that waits for it. (`send_signal` is for durable tasks.)"""
    body = without_none(name=name, variables=variables, ttl_ms=milliseconds(ttl, "ttl"))
    return _thrown("/v1/process-signals", body)


def _thrown(path: str, body: Mapping[str, Any]) -> Request[ThrownEvent]:
    return Request("POST", path, lambda answer: read(ThrownEvent, answer.json), body=_json.encode(body))


def _instance(instance_id: str) -> str:
    return f"/v1/process-instances/{_segment(instance_id)}"


def _instance_call(
    instance_id: str, verb: str, body: Mapping[str, Any] | None, *, repeatable: bool
) -> Request[InstanceStatus]:
    return Request(
        "POST",
        f"{_instance(instance_id)}/{verb}",
        lambda answer: read(InstanceStatus, answer.json),
        body=None if body is None else _json.encode(body),
        repeatable=repeatable,
    )


def _form(files: Mapping[str, bytes | str]) -> tuple[bytes, str]:
    """The files as multipart/form-data, and its media type."""
    contents = {name: content.encode() if isinstance(content, str) else content for name, content in files.items()}
    fence = secrets.token_hex(16)
    parts = [
        b'--%s\r\nContent-Disposition: form-data; name="files"; filename="%s"\r\n\r\n%s\r\n'
        % (fence.encode(), re.sub(r'[\\"]', r"\\\g<0>", name).encode(), content)
        for name, content in contents.items()
    ]
    return b"".join(parts) + b"--%s--\r\n" % fence.encode(), f"multipart/form-data; boundary={fence}"


def list_workers() -> Request[Any]:
    """All workers that registered, with their last heartbeat."""
    return _get("/v1/workers")


def _get(path: str) -> Request[Any]:
    return Request("GET", path, lambda answer: answer.json, repeatable=True)


def _query(**filters: Any) -> dict[str, str]:
    """Parameters of an address: those that were given."""
    return {name: str(value) for name, value in filters.items() if value is not None}


def _put(path: str, body: Mapping[str, Any]) -> Request[dict[str, Any]]:
    return Request("PUT", path, lambda answer: dict(answer.json), body=_json.encode(body), repeatable=True)


def _segment(text: str) -> str:
    """One path segment, whatever is in it."""
    return quote(text, safe="")
