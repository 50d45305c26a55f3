"""The shapes of answers, for OpenAPI: handlers write them as bytes, so these document and are held to it by tests."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel

Variables = dict[str, Any]


class LeasedTask(BaseModel):
    """A task under a lease; every write to it carries `fencing_token`. `process_instance` is `instance_id`."""

    task_id: UUID
    token_id: UUID | None
    instance_id: UUID | None
    process_instance: UUID | None
    task_type: str
    version: int
    business_key: str | None
    variables: Variables
    fencing_token: int
    lock_expires_at: datetime
    lock_duration_ms: int
    retries: int
    attempt: int
    priority: int
    created_at: datetime


class TaskState(BaseModel):
    task_id: UUID
    state: str


class FailedTask(TaskState):
    """`run_at`: when the next attempt is due; null when there is none."""

    retries: int | None
    run_at: datetime | None


class ExtendedLease(BaseModel):
    task_id: UUID
    lock_expires_at: datetime
    lock_duration_ms: int


class Completed(BaseModel):
    """`code` is null when the item went through, else why it was refused."""

    task_id: UUID
    state: str | None
    code: str | None
    message: str | None


class Failed(Completed):
    retries: int | None
    run_at: datetime | None


class CompletedMany(BaseModel):
    results: list[Completed]


class FailedMany(BaseModel):
    results: list[Failed]


class CreatedTask(BaseModel):
    """`created` is false when the idempotency key was known with the same input: this is the first task."""

    task_id: UUID
    task_type: str
    state: str
    created: bool


class CreatedTasks(BaseModel):
    tasks: list[CreatedTask]


class ListedTask(BaseModel):
    task_id: UUID
    task_type: str
    version: int
    business_key: str | None
    state: str
    priority: int | None
    retries: int | None
    attempts: int | None
    expirations: int | None
    redrives: int
    idempotency_key: str | None
    fairness_key: str | None
    concurrency_key: str | None
    undoing: bool
    worker_id: str | None
    principal: str | None
    fencing_token: int | None
    lock_expires_at: datetime | None
    run_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    error: str | None


class TaskPage(BaseModel):
    """`next_cursor` is null on the last page."""

    tasks: list[ListedTask]
    next_cursor: str | None


class Attempt(BaseModel):
    attempt: int
    worker_id: str | None
    principal: str | None
    fencing_token: int | None
    outcome: str
    error: str | None
    started_at: datetime | None
    ended_at: datetime | None


class TimelineEntry(BaseModel):
    at: datetime
    kind: str
    attempt: int | None
    fencing_token: int | None
    worker_id: str | None
    principal: str | None
    detail: Any


class Wait(BaseModel):
    """What a WAITING task waits for: a signal, a time, another task, or somebody's decision; `until` ends it."""

    branch: str
    ordinal: int
    kind: str
    name: str
    topic: str | None
    key: str | None
    until: datetime | None
    child_id: UUID | None
    incident_id: UUID | None
    since: datetime


class Compensation(BaseModel):
    """The undo of a step, registered before the step began; highest `number` first is the order of undoing."""

    number: int
    branch: str
    ordinal: int
    name: str
    state: str
    error: str | None
    registered_at: datetime
    ended_at: datetime | None


class TaskDetail(ListedTask):
    """`attempts` lists them here; in a list it is their number."""

    variables: Variables
    result: Variables | None
    policy: Variables | None
    token_id: UUID | None
    instance_id: UUID | None
    attempts: list[Attempt]  # type: ignore[assignment]
    timeline: list[TimelineEntry]
    waits: list[Wait]
    compensations: list[Compensation]


class Step(BaseModel):
    """`branch` is empty for the handler itself, else the path of the gather that it is in; `ordinal` counts from 1."""

    branch: str
    ordinal: int
    kind: str
    name: str
    result: Any
    error: str | None
    fencing_token: int | None
    recorded_at: datetime


class StepPage(BaseModel):
    """`next_cursor` is null on the last page."""

    steps: list[Step]
    next_cursor: str | None


class SentSignal(BaseModel):
    """`created` is false when its `dedupe_id` was known; `delivered`: how many waiting tasks it woke at once."""

    signal_id: UUID
    created: bool
    delivered: int


class ListedIncident(BaseModel):
    """Of a task (`kind` operation_unknown, other_code, undo_failed; `branch`, `ordinal`, `name`: where in it), or of an
    instance (expression, model, loop, failed; `name`: the element, `token_id`: its token, `task_id`: its last task)."""

    incident_id: UUID
    task_id: UUID | None
    task_type: str | None
    instance_id: UUID | None
    token_id: UUID | None
    kind: str
    state: str
    operation_id: UUID | None
    branch: str | None
    ordinal: int | None
    name: str | None
    message: str
    created_at: datetime
    resolved_at: datetime | None
    resolution: str | None
    resolved_by: str | None
    note: str | None


class IncidentAnswer(ListedIncident):
    """`detail` is for programs: what was expected and what was found."""

    detail: Any


class IncidentPage(BaseModel):
    """`next_cursor` is null on the last page."""

    incidents: list[ListedIncident]
    next_cursor: str | None


class ResolvedIncident(BaseModel):
    incident_id: UUID
    task_id: UUID | None
    instance_id: UUID | None
    resolution: str


class ListedOperation(BaseModel):
    """`attempt` counts how often it was begun; UNKNOWN ones have `unknown_at`."""

    operation_id: UUID
    task_id: UUID
    task_type: str
    branch: str
    ordinal: int
    name: str
    state: str
    attempt: int
    fencing_token: int
    error: str | None
    started_at: datetime
    unknown_at: datetime | None
    ended_at: datetime | None


class OperationAnswer(ListedOperation):
    """`plan` was written before the effect."""

    plan: Any
    result: Any


class OperationPage(BaseModel):
    """`next_cursor` is null on the last page."""

    operations: list[ListedOperation]
    next_cursor: str | None


class ResolvedOperation(BaseModel):
    operation_id: UUID
    task_id: UUID
    state: str


class RedrivenTasks(BaseModel):
    task_ids: list[UUID]


class TaskTypeAnswer(BaseModel):
    """What a task type's tasks get unless they say otherwise."""

    name: str
    lease_ms: int
    retries: int
    backoff_first_ms: int
    backoff_factor: float
    backoff_cap_ms: int
    backoff_jitter: float
    expirations: int
    delivery: str
    queue: str | None
    concurrency: int | None
    rate_tasks: int | None
    rate_ms: int | None
    created_at: datetime
    updated_at: datetime


class TaskTypes(BaseModel):
    task_types: list[TaskTypeAnswer]


class WorkerAnswer(BaseModel):
    worker_id: str
    heartbeat_at: datetime


class ListedWorker(WorkerAnswer):
    kind: str
    task_types: list[str]
    principal: str
    versions: Any
    details: Any
    started_at: datetime
    live: bool


class Workers(BaseModel):
    workers: list[ListedWorker]


class KeyAnswer(BaseModel):
    key_id: UUID
    name: str
    principal: str
    verbs: list[str]
    task_types: list[str]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class Keys(BaseModel):
    keys: list[KeyAnswer]


class NewKey(KeyAnswer):
    """`key` is shown here and never again."""

    key: str


class RevokedKey(BaseModel):
    key_id: UUID
    revoked_at: datetime


class Live(BaseModel):
    status: str


class Ready(BaseModel):
    """`status` is ready or unavailable; each check says ok, degraded or what is wrong."""

    status: str
    database: str
    redis: str


class ScheduleAnswer(BaseModel):
    """A schedule. `next_at` is null while it is paused or stands still; then `error` says why."""

    name: str
    cron: str | None
    every: str | None
    time_zone: str
    anchor_at: datetime | None
    catch_up: str
    slot_variable: str | None
    paused: bool
    next_at: datetime | None
    last_slot_at: datetime | None
    last_task_id: UUID | None
    fired: int
    missed: int
    error: str | None
    task: Variables
    principal: str
    created_at: datetime
    updated_at: datetime


class SchedulePage(BaseModel):
    """`next_cursor` is null on the last page."""

    schedules: list[ScheduleAnswer]
    next_cursor: str | None


class DeletedSchedule(BaseModel):
    name: str


class Finding(BaseModel):
    """One thing about one element of a model."""

    resource: str
    severity: str
    element: str | None
    line: int
    message: str


class DeployedDefinition(BaseModel):
    definition_id: UUID
    key: str
    version: int


class Deployed(BaseModel):
    """`created` is false when nothing has changed: these are the versions that are there. `findings`: warnings."""

    deployment_id: UUID
    created: bool
    definitions: list[DeployedDefinition]
    findings: list[Finding]


class ListedDefinition(BaseModel):
    """`topics`: the task types that the process asks for, `*` where an expression names one."""

    definition_id: UUID
    key: str
    version: int
    name: str | None
    version_tag: str | None
    deployment_id: UUID
    resource: str
    topics: list[str]
    startable: bool
    suspended: bool
    deployed_at: datetime


class DefinitionAnswer(ListedDefinition):
    findings: list[Finding]


class DefinitionPage(BaseModel):
    """`next_cursor` is null on the last page."""

    definitions: list[ListedDefinition]
    next_cursor: str | None


class StartedInstance(BaseModel):
    """`created` is false when the idempotency key was known: this is the first instance."""

    instance_id: UUID
    definition_id: UUID
    process_key: str
    process_version: int
    created: bool


class ListedInstance(BaseModel):
    """`incidents` is the number of open ones; `outcome` what a compensation that is under way will end as."""

    instance_id: UUID
    definition_id: UUID
    process_key: str
    process_version: int
    business_key: str | None
    status: str
    suspended: bool
    started_at: datetime
    ended_at: datetime | None
    outcome: str | None
    reason: str | None
    principal: str
    incidents: int


class InstancePage(BaseModel):
    """`next_cursor` is null on the last page."""

    instances: list[ListedInstance]
    next_cursor: str | None


class Token(BaseModel):
    """One place where an instance stands. `token_id` is also that of its task; `stuck`: it has an incident."""

    token_id: UUID
    node: str
    scope: str
    phase: str
    stuck: bool
    undoing: bool
    entered_at: datetime


class EventWait(BaseModel):
    """What a token waits for: a message, a signal or a timer."""

    token_id: UUID
    node: str
    kind: str
    name: str | None
    due_at: datetime | None
    timing: str | None
    fired: int
    opened_at: datetime


class LocalVariable(BaseModel):
    scope: str
    name: str
    type: str | None
    value: Any


class Undo(BaseModel):
    """An activity that is done and what undoes it; each is used once."""

    activity: str
    handler: str | None
    used: bool


class InstanceIncident(BaseModel):
    incident_id: UUID
    kind: str
    node: str | None
    message: str
    token_id: UUID | None
    task_id: UUID | None
    created_at: datetime


class InstanceAnswer(ListedInstance):
    """`variables` are those of the instance itself; `local_variables` those of its open subprocesses."""

    tokens: list[Token]
    waits: list[EventWait]
    variables: Variables
    local_variables: list[LocalVariable]
    undos: list[Undo]
    open_incidents: list[InstanceIncident]


class InstanceStatus(BaseModel):
    instance_id: UUID
    status: str
    suspended: bool


class ChangedVariables(BaseModel):
    instance_id: UUID
    changed: int


class InstanceEvent(BaseModel):
    """`task_id`: of the task that the element was, if it was one; `worker_id`: who had done it when it was left."""

    number: int
    at: datetime
    token: int
    what: str
    node: str
    task_id: UUID | None
    worker_id: str | None


class HistoryPage(BaseModel):
    """`next_cursor` is null on the last page."""

    history: list[InstanceEvent]
    next_cursor: str | None


class ReachedInstance(BaseModel):
    """`started`: the event has begun this instance; else it was waiting."""

    instance_id: UUID
    definition_id: UUID | None
    started: bool


class ThrownEvent(BaseModel):
    """`kept`: nobody waits yet, and whoever does first within its time gets it."""

    reached: list[ReachedInstance]
    kept: bool
