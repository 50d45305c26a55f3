"""What an attempt came to, and the call that reports it."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from celeriac import _requests
from celeriac._lease import Lease
from celeriac._requests import Request
from celeriac.errors import BpmnError, Fatal, Invalid, Refused, Retry, TooLarge
from celeriac.values import FailedAttempt, TaskState

ERROR_BYTES: Final = 8192
_FRAMES: Final = 6
_OURS: Final = str(Path(__file__).parent)
_CAUSES: Final = 3


@dataclass(frozen=True, slots=True)
class Completed:
    """The handler returned, or raised a BpmnError: the task is to be COMPLETED."""

    request: Request[TaskState]


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler raised, or returned what cannot be a result."""

    request: Request[FailedAttempt]
    reason: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The handler stopped after the task was no longer ours: there is nothing to report."""

    reason: str


Outcome = Completed | Failed | Stopped


def returned(lease: Lease, worker_id: str, result: Any) -> Outcome:
    """A handler's result as a completion; as a failure when it is not a dict of JSON (or None)."""
    if result is not None and not isinstance(result, dict):
        return failure(lease, worker_id, f"the handler returned {_kind(result)}; a result is a dict or None")
    try:
        request = _requests.complete_task(
            lease.task.task_id, worker_id=worker_id, fencing_token=lease.task.fencing_token, variables=result
        )
    except (Invalid, TooLarge) as error:
        return failure(lease, worker_id, f"the handler's result cannot be sent: {error}")
    return Completed(request)


def raised(lease: Lease, worker_id: str, error: BaseException) -> Outcome:
    """What a handler raised as a failure of the attempt; as nothing to report once its lease has ended."""
    if lease.ended:
        return Stopped(error_text(error))
    if isinstance(error, Retry):
        return failure(lease, worker_id, f"Retry: {error}", retry_after=error.after)
    if isinstance(error, BpmnError):
        return _thrown(lease, worker_id, error)
    if isinstance(error, Fatal):
        return failure(lease, worker_id, f"Fatal: {error}", retries=0)
    return failure(lease, worker_id, error_text(error))


def _thrown(lease: Lease, worker_id: str, error: BpmnError) -> Outcome:
    try:
        request = _requests.throw_bpmn_error(
            lease.task.task_id,
            worker_id=worker_id,
            fencing_token=lease.task.fencing_token,
            code=error.code,
            message=None if error.message is None else sendable(error.message),
            variables=error.variables,
        )
    except (Invalid, TooLarge) as wrong:
        return failure(lease, worker_id, f"the handler's BpmnError cannot be sent: {wrong}")
    return Completed(request)


def failure(
    lease: Lease, worker_id: str, reason: str, *, retry_after: float | None = None, retries: int | None = None
) -> Failed:
    request = _requests.fail_task(
        lease.task.task_id,
        worker_id=worker_id,
        fencing_token=lease.task.fencing_token,
        error=sendable(reason),
        retry_after=retry_after,
        retries=retries,
    )
    return Failed(request, reason)


def refused_result(lease: Lease, worker_id: str, error: Refused) -> Failed:
    """The failure of an attempt whose result the server does not take."""
    return failure(lease, worker_id, f"the server refused the handler's result: {type(error).__name__}: {error}")


def error_text(error: BaseException) -> str:
    """`ValueError: message`, where it was raised, and what caused it. Lines of code, never values of variables."""
    lines = [headline(error)]
    cause: BaseException | None = error
    for depth in range(_CAUSES):
        if cause is None:
            break
        if depth:
            lines.append(f"caused by {headline(cause)}")
        frames = _users_frames(cause)
        lines += [f"  at {f.filename}:{f.lineno} in {f.name}: {f.line}" for f in reversed(frames[-_FRAMES:])]
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return "\n".join(lines)


def _users_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Where it was raised; our own code in between only when there is no other."""
    frames = list(traceback.extract_tb(error.__traceback__))
    return [frame for frame in frames if not frame.filename.startswith(_OURS)] or frames


def sendable(text: str) -> str:
    """Text that the server takes: without NUL and half surrogates, cut at a character boundary."""
    clean = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace")
    return clean[:ERROR_BYTES].decode("utf-8", "ignore") or "(no message)"


def headline(error: BaseException) -> str:
    """`ValueError: message`."""
    try:
        message = str(error)
    except Exception as unprintable:  # noqa: BLE001 - a handler's exception may raise anything in its __str__
        message = f"(its message cannot be shown: {type(unprintable).__name__})"
    return f"{_kind(error)}: {message}" if message else _kind(error)


def _kind(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
