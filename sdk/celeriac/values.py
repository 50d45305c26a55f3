"""What goes into calls and what comes out of them. Times are RFC 3339 text, as the server wrote them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any, TypedDict, TypeVar

from celeriac.errors import Invalid, Refused, UnexpectedAnswer, refusal

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Policy:
    """What one task asks to differ in from its task type; None keeps the type's value.

    `expirations` is how many lost leases the task survives. `backoff_jitter` is the random share of a delay, 0 to 1.
    """

    lease_seconds: float | None = None
    backoff_first_seconds: float | None = None
    backoff_factor: float | None = None
    backoff_cap_seconds: float | None = None
    backoff_jitter: float | None = None
    expirations: int | None = None

    def to_json(self) -> dict[str, Any]:
        return without_none(
            lease_ms=milliseconds(self.lease_seconds, "policy.lease_seconds"),
            backoff_first_ms=milliseconds(self.backoff_first_seconds, "policy.backoff_first_seconds"),
            backoff_factor=self.backoff_factor,
            backoff_cap_ms=milliseconds(self.backoff_cap_seconds, "policy.backoff_cap_seconds"),
            backoff_jitter=self.backoff_jitter,
            expirations=self.expirations,
        )


class TaskOptions(TypedDict, total=False):
    """What a task may be enqueued with beside its type and variables; NewTask says what each means."""

    idempotency_key: str | None
    business_key: str | None
    fairness_key: str | None
    concurrency_key: str | None
    priority: int
    delay: float | timedelta | None
    run_at: datetime | None
    retries: int | None
    version: int
    policy: Policy | None


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task to enqueue. `variables` must be JSON: text, numbers, bools, None, lists, dicts (and Decimal).

    `delay` is in seconds (or a timedelta), `run_at` a datetime with a zone; give at most one of them.
    `retries` is how many attempts may fail before the task is FAILED. The highest `priority` goes first, then
    the oldest, but tasks with a `fairness_key` (a tenant, say) take turns with those of other keys. Of the tasks with
    one `concurrency_key` no more run at once than the task type's `concurrency` says.
    """

    task_type: str
    variables: Mapping[str, Any] = field(default_factory=dict)
    idempotency_key: str | None = None
    business_key: str | None = None
    fairness_key: str | None = None
    concurrency_key: str | None = None
    priority: int = 0
    delay: float | timedelta | None = None
    run_at: datetime | None = None
    retries: int | None = None
    version: int = 1
    policy: Policy | None = None

    def to_json(self) -> dict[str, Any]:
        """The item as the HTTP API and the SQL function take it; raises Invalid for what cannot be sent."""
        if not isinstance(self.variables, Mapping):
            raise Invalid("variables must be an object: a dict", field="variables")
        if self.policy is not None and not isinstance(self.policy, Policy):
            raise Invalid("policy must be a Policy", field="policy")
        return without_none(
            task_type=self.task_type,
            variables=dict(self.variables),
            version=self.version,
            priority=self.priority,
            business_key=self.business_key,
            idempotency_key=self.idempotency_key,
            fairness_key=self.fairness_key,
            concurrency_key=self.concurrency_key,
            delay_ms=milliseconds(self.delay, "delay"),
            run_at=with_zone(self.run_at, "run_at"),
            retries=self.retries,
            policy=self.policy.to_json() if self.policy else None,
        )


@dataclass(frozen=True, slots=True)
class EnqueuedTask:
    """A task that is in the queue. `created` is False when the idempotency key named a task that was there before."""

    task_id: str
    task_type: str
    state: str
    created: bool


@dataclass(frozen=True, slots=True)
class Task:
    """A task handed out under a lease, as fetched. `attempt` counts from 1; `retries` are the failures left.

    `resumed`: an earlier attempt may have recorded steps. `undoing`: it failed for good (or was canceled), and what
    it did is to be undone.
    """

    task_id: str
    task_type: str
    version: int
    variables: dict[str, Any]
    fencing_token: int
    lock_duration_ms: int
    lock_expires_at: str
    retries: int
    attempt: int
    priority: int = 0
    business_key: str | None = None
    token_id: str | None = None
    instance_id: str | None = None
    created_at: str | None = None
    resumed: bool = False
    undoing: bool = False
    expirations: int = 0
    """How many leases it has lost so far (told to fleets only)."""
    lives: int = 0
    """How often it began anew after it had been undone (told to fleets only)."""


@dataclass(frozen=True, slots=True)
class TaskState:
    """Where a task is after a call."""

    task_id: str
    state: str


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """What a failure came to: READY or SCHEDULED again from `run_at`, or FAILED for good."""

    task_id: str
    state: str
    retries: int
    run_at: str | None = None


@dataclass(frozen=True, slots=True)
class ExtendedLease:
    """A lease with a new end."""

    task_id: str
    lock_expires_at: str
    lock_duration_ms: int


@dataclass(frozen=True, slots=True)
class Completion:
    """One task to complete in a batch."""

    task_id: str
    fencing_token: int | None = None
    variables: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        return without_none(task_id=self.task_id, fencing_token=self.fencing_token, variables=self.variables)


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt to report in a batch; see `fail_task` for the fields."""

    task_id: str
    error: str
    fencing_token: int | None = None
    retry_after: float | timedelta | None = None
    retries: int | None = None

    def to_json(self) -> dict[str, Any]:
        return without_none(
            task_id=self.task_id,
            fencing_token=self.fencing_token,
            error=self.error,
            retry_after_ms=milliseconds(self.retry_after, "retry_after"),
            retries=self.retries,
        )


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What became of one item of a batch: `code` is None when it was done, else the word for why not."""

    task_id: str
    state: str | None = None
    code: str | None = None
    message: str | None = None
    retries: int | None = None
    run_at: str | None = None

    @property
    def refusal(self) -> Refused | None:
        """The error that a single call would have raised."""
        return refusal(self.code, self.message or self.code, task_id=self.task_id) if self.code else None


@dataclass(frozen=True, slots=True)
class TaskPage:
    """One page of tasks; hand `next_cursor` to the next call, None ends the list."""

    tasks: list[dict[str, Any]]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class SentSignal:
    """A signal that was sent; it woke `delivered` tasks at once. `created` is False when its `dedupe_id` was known."""

    signal_id: str
    created: bool
    delivered: int


@dataclass(frozen=True, slots=True)
class ResolvedIncident:
    """What was decided about an incident of a task, or of an instance (and its last task, if there is one)."""

    incident_id: str
    task_id: str | None
    resolution: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class ResolvedOperation:
    """What was decided about an operation with an unknown outcome: DONE, NOT_DONE or FAILED."""

    operation_id: str
    task_id: str
    state: str


@dataclass(frozen=True, slots=True)
class IncidentPage:
    """One page of incidents; hand `next_cursor` to the next call, None ends the list."""

    incidents: list[dict[str, Any]]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class OperationPage:
    """One page of operations; hand `next_cursor` to the next call, None ends the list."""

    operations: list[dict[str, Any]]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class SchedulePage:
    """One page of schedules; hand `next_cursor` to the next call, None ends the list."""

    schedules: list[dict[str, Any]]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class StepPage:
    """One page of what a task has done so far; hand `next_cursor` to the next call, None ends the list."""

    steps: list[dict[str, Any]]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Deployed:
    """What was deployed: each definition with definition_id, key and version. `created` is False when nothing is new.

    `findings` are warnings: what was left out or turned into something else.
    """

    deployment_id: str
    created: bool
    definitions: list[dict[str, Any]]
    findings: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DefinitionPage:
    """One page of process definitions; hand `next_cursor` to the next call, None ends the list."""

    definitions: list[dict[str, Any]]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class StartedInstance:
    """An instance that runs. `created` is False when the idempotency key was known: this is the first one."""

    instance_id: str
    definition_id: str
    process_key: str
    process_version: int
    created: bool


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    """How an instance is after a call: ACTIVE, COMPENSATING, COMPLETED, FAILED_COMPENSATED or CANCELED."""

    instance_id: str
    status: str
    suspended: bool


@dataclass(frozen=True, slots=True)
class InstancePage:
    """One page of instances; hand `next_cursor` to the next call, None ends the list."""

    instances: list[dict[str, Any]]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """One page of what has happened in an instance; hand `next_cursor` to the next call, None ends the list."""

    history: list[dict[str, Any]]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class ThrownEvent:
    """The instances that a message or signal reached or began (`started`); `kept`: it waits for whoever comes."""

    reached: list[dict[str, Any]]
    kept: bool


@dataclass(frozen=True, slots=True)
class Thrown(Failure):
    """A business error to report, of a task of a process: `error` is its message."""

    code: str = ""
    variables: Mapping[str, Any] | None = None


def signal_fields(
    topic: str, key: str | None, payload: Any, ttl: float | timedelta | None, dedupe_id: str | None, broadcast: bool
) -> dict[str, Any]:
    """A signal as the HTTP API and the SQL function take it; what is left out there keeps its default."""
    fields = without_none(topic=topic, key=key, payload=payload, ttl_ms=milliseconds(ttl, "ttl"), dedupe_id=dedupe_id)
    return fields | {"broadcast": True} if broadcast else fields


def read(kind: type[T], answer: Any) -> T:
    """A value from an answer; fields of a newer server are passed over, missing ones raise UnexpectedAnswer."""
    try:
        known = {f.name: answer[f.name] for f in fields(kind) if f.name in answer}  # type: ignore[arg-type]
        return kind(**known)
    except TypeError as error:
        raise UnexpectedAnswer(f"the answer is no {kind.__name__}: {error}") from None


def without_none(**values: Any) -> dict[str, Any]:
    """The values that were given; a null and a missing field mean the same to the server."""
    return {name: value for name, value in values.items() if value is not None}


def milliseconds(duration: float | timedelta | None, name: str) -> int | None:
    """Seconds or a timedelta as whole milliseconds; raises Invalid for what is no duration."""
    if duration is None:
        return None
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    try:
        return round(seconds * 1000)
    except (OverflowError, ValueError, TypeError):
        raise Invalid(f"{name} must be a number of seconds or a timedelta", field=name) from None


def period(duration: float | timedelta) -> str:
    """Seconds or a timedelta as an ISO 8601 period; raises Invalid for what is no duration."""
    whole, thousandths = divmod(milliseconds(duration, "every") or 0, 1000)
    return f"PT{whole}.{thousandths:03}S" if thousandths else f"PT{whole}S"


def with_zone(moment: datetime | None, name: str) -> str | None:
    """A moment as RFC 3339 text; raises Invalid for what is no datetime, or has no time zone."""
    if moment is None:
        return None
    if not isinstance(moment, datetime):
        raise Invalid(f"{name} must be a datetime", field=name)
    if moment.utcoffset() is None:
        raise Invalid(f"{name} must have a time zone", field=name)
    return moment.isoformat()
