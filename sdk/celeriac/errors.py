"""Every error of the SDK, on one screen.

    CeleriacError
    ├── ConnectionFailed          no answer: the server was not reached, or its answer was lost on the way
    ├── ServerUnavailable         the server cannot serve now (429, 5xx); the call itself may be fine
    ├── UnexpectedAnswer          whoever answered is not Celeriac (a proxy's page, broken JSON)
    └── Refused                   the server understood and said no; nothing was changed
        ├── Unauthorized          401  no valid key or token
        ├── Forbidden             403  the key lacks the verb
        ├── NotFound              404  no such task, or one that this key may not touch: they look the same
        │   └── NoWaiter               nothing waits for this message, and it was not to be kept
        ├── TooLarge              413  payload or body over its limit
        ├── Invalid               422  a value is wrong; `field` names it. Also raised here, before anything is sent
        └── Conflict              409  the state of the task does not allow it
            ├── LeaseLost              somebody else holds the task now, or nobody does
            ├── LeaseExpired           the lease ran out before the call
            ├── StaleToken             the fencing token is an old one
            ├── AlreadyEnded           the task has ended, and not by this very call
            ├── Canceled               the task was canceled
            ├── IdempotencyConflict    the key was used before with other input; `task_id` is the first task
            └── Suspended              its process instance stands still until somebody resumes it

    HandlerVerdict                raised by a handler on purpose; never raised by the SDK
    ├── Retry                     fail this attempt, try again (after a time)
    ├── BpmnError                 end the task with a business error, which the process may catch
    └── Fatal                     fail the task for good, whatever retries are left

    DurableError                  raised by the calls of a durable task's context
    ├── StepFailed                a step failed for good; `error` says how, in the first run and in every replay
    ├── ChildFailed               a task that was waited for FAILED or was CANCELED
    └── OutOfPlace                a call in a place where it cannot be durable; the message says where it belongs

    SoftTimeLimitExceeded         the handler has run for longer than its task type allows

A refusal over HTTP (problem+json) and one of the SQL functions (SQLSTATE) are the same error here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final


class CeleriacError(Exception):
    """Base of all errors that calls raise."""


class ConnectionFailed(CeleriacError):
    """No answer. `sent` is False when the request certainly never left, so that repeating it is safe."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class ServerUnavailable(CeleriacError):
    """The server answered 429 or 5xx. `retry_after_seconds` is what it asked for, or None."""

    def __init__(self, message: str, *, status: int, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_seconds = retry_after_seconds


class UnexpectedAnswer(CeleriacError):
    """The answer is not one of Celeriac's."""


class Refused(CeleriacError):
    """The server said no. `code` is the word to branch on, `field` the input at fault (or None)."""

    code: ClassVar[str] = "refused"
    status: int = 400

    def __init__(
        self,
        message: str,
        *,
        field: str | None = None,
        task_id: str | None = None,
        status: int | None = None,
        errors: tuple[Mapping[str, Any], ...] = (),
    ) -> None:
        super().__init__(message)
        self.field = field
        self.task_id = task_id
        self.status = status or self.status
        self.errors = errors


class Unauthorized(Refused):
    """No valid API key or token."""

    code = "unauthorized"
    status = 401


class Forbidden(Refused):
    """The key or token does not allow this verb."""

    code = "forbidden"
    status = 403


class NotFound(Refused):
    """There is no such thing, or this caller may not see it."""

    code = "not_found"
    status = 404


class NoWaiter(NotFound):
    """Nothing waits for this message, and it was not to be kept."""

    code = "no_waiter"


class TooLarge(Refused):
    """A payload of more than 1 MiB of JSON, or a body of more than 4 MiB."""

    code = "too_large"
    status = 413


class Invalid(Refused):
    """A value has the wrong type, range, length or content. Of a deployment, `errors` has all that is wrong with it."""

    code = "invalid"
    status = 422


class Conflict(Refused):
    """The task's state does not allow the call."""

    code = "conflict"
    status = 409


class LeaseLost(Conflict):
    """The caller no longer holds the task."""

    code = "lease_lost"


class LeaseExpired(Conflict):
    """The lease had run out when the call arrived."""

    code = "lease_expired"


class StaleToken(Conflict):
    """The task was handed over since: another fencing token is the current one."""

    code = "stale_token"


class AlreadyEnded(Conflict):
    """The task has ended; ended tasks do not change."""

    code = "already_ended"


class Canceled(Conflict):
    """The task was canceled."""

    code = "canceled"


class IdempotencyConflict(Conflict):
    """The idempotency key belongs to a task with other input; `task_id` is that task."""

    code = "idempotency_conflict"


class Suspended(Conflict):
    """The process instance of the task stands still until somebody resumes it."""

    code = "suspended"


class HandlerVerdict(Exception):
    """What a handler raises to end its attempt in a certain way."""


class Retry(HandlerVerdict):
    """Fail this attempt and try again `after` seconds from now (None: by the back-off of the task type).

    It uses up one retry, like any failure. Raises ValueError for a time below 0 or over 100 years.
    """

    def __init__(self, reason: str = "asked for a retry", *, after: float | None = None) -> None:
        if after is not None and not 0 <= after <= _LONGEST_SECONDS:
            raise ValueError(f"after must be between 0 and {_LONGEST_SECONDS} seconds")
        super().__init__(reason)
        self.after = after


class BpmnError(HandlerVerdict):
    """End the task of a process with a business error: `code` is what the model's error events are compared with.

    The task itself is COMPLETED, nothing is tried again, and `variables` go to where the error is caught. Where the
    model catches other errors but not this one, that is an incident. Of a task that belongs to no process it fails the
    attempt.
    """

    def __init__(self, code: str, message: str | None = None, variables: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code
        self.message = message
        self.variables = variables


class Fatal(HandlerVerdict):
    """Fail the task for good: trying again cannot help."""


class DurableError(Exception):
    """Base of what the calls of a durable task's context raise on their own account."""


class StepFailed(DurableError):
    """A step, operation or transaction failed in its last try.

    `error` is the text `ValueError: message`, the same in the first run and in every replay. `__cause__` is the
    original exception, but only in the run in which it was raised: do not decide by it.
    """

    def __init__(self, name: str, error: str) -> None:
        super().__init__(f"{name!r} failed: {error}")
        self.name = name
        self.error = error


class ChildFailed(DurableError):
    """A task that was waited for ended without a result. `state` is FAILED or CANCELED."""

    def __init__(self, task_id: str, task_type: str, state: str, error: str | None) -> None:
        super().__init__(f"{task_type} {task_id} is {state}" + (f": {error}" if error else ""))
        self.task_id = task_id
        self.task_type = task_type
        self.state = state
        self.error = error


class OutOfPlace(DurableError):
    """A call that would not be durable where it was made: in a thread of one's own, inside a step, after a wait."""


class SoftTimeLimitExceeded(Exception):
    """The handler has run for longer than its task type allows. Clean up and end: the hard limit comes next."""


_LONGEST_SECONDS: Final = 3_155_760_000  # 100 years

_BY_CODE: Final[Mapping[str, type[Refused]]] = {
    kind.code: kind
    for kind in (
        Unauthorized, Forbidden, NotFound, NoWaiter, TooLarge, Invalid, Conflict,
        LeaseLost, LeaseExpired, StaleToken, AlreadyEnded, Canceled, IdempotencyConflict, Suspended,
    )
}  # fmt: skip
_BY_STATUS: Final[Mapping[int, type[Refused]]] = {
    kind.status: kind for kind in (Unauthorized, Forbidden, NotFound, Conflict, TooLarge, Invalid)
}


def refusal(
    code: str | None,
    message: str,
    *,
    status: int | None = None,
    field: str | None = None,
    task_id: str | None = None,
    errors: tuple[Mapping[str, Any], ...] = (),
) -> Refused:
    """The error for a refusal's code; for a code of a newer server, that of its status."""
    kind = _BY_CODE.get(code or "") or _BY_STATUS.get(status or 0, Refused)
    return kind(message, field=field, task_id=task_id, status=status, errors=errors)


def from_problem(status: int, problem: Mapping[str, Any]) -> Refused:
    """The error for a problem+json body."""
    detail = str(problem.get("detail") or problem.get("title") or f"refused with status {status}")
    return refusal(
        problem.get("code"),
        detail,
        status=status,
        field=problem.get("field"),
        task_id=problem.get("task_id"),
        errors=tuple(problem.get("findings") or problem.get("errors") or ()),
    )
