"""Waiting for a signal, a time or another task, without a worker; and asking for other tasks.

A wait that is not over leaves the handler. When it is, the handler runs again from its top, and the wait is a call with
a record like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from celeriac import _json
from celeriac.durable._failure import reason_of
from celeriac.durable._form import PLAIN, Form
from celeriac.durable._replay import Place, Replay
from celeriac.durable._score import Ask, Score
from celeriac.durable._unwinding import Suspended
from celeriac.errors import ChildFailed, Invalid, Refused, StepFailed
from celeriac.values import NewTask, milliseconds, without_none

COMPLETED: Final = "COMPLETED"


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal that has come. `sent_at` is RFC 3339 text."""

    signal_id: str
    topic: str
    key: str | None
    payload: Any
    sent_at: str


def wait_for(replay: Replay, topic: str, key: str | None, timeout: float | timedelta | None) -> Score[Signal | None]:
    """The signal, or None when `timeout` has passed before it came."""
    wait = without_none(topic=topic, key=key, timeout_ms=_duration(timeout, "timeout"))
    with replay.at("signal", topic) as place:
        if place.record is None:
            yield from _suspend(replay, place, wait)
        came = replay.recall(place, PLAIN)
        return None if came is None else Signal(**{name: came.get(name) for name in Signal.__slots__})


def sleep(replay: Replay, duration: float | timedelta) -> Score[None]:
    """Some time has passed."""
    yield from _timer(replay, "sleep", {"delay_ms": _duration(duration, "duration")})


def sleep_until(replay: Replay, moment: datetime) -> Score[None]:
    """A moment has come."""
    if moment.utcoffset() is None:
        raise Invalid("the moment must have a time zone", field="moment")
    yield from _timer(replay, "sleep_until", {"until": moment.isoformat()})


def enqueue(replay: Replay, name: str, tasks: Sequence[NewTask]) -> Score[list[str]]:
    """The ids of tasks that were enqueued as children of this one, once. Raises StepFailed when they are refused."""
    body = _json.encode([task.to_json() for task in tasks], "tasks").decode()
    with replay.at("enqueue", name) as place:
        if place.record is not None:
            return list(replay.recall(place, PLAIN))
        yield from replay.go_on(place)
        try:
            ids: list[str] = yield Ask(lambda: replay.ledger.enqueue(place.branch.path, place.ordinal, name, body))
        except Refused as error:
            if replay.lease.stopped:
                raise
            raise StepFailed(name, reason_of(error)) from error
        replay.learn(place.ended(_json.encode(ids).decode()))
        return ids


def result_of(
    replay: Replay, task_id: str, task_type: str, form: Form, timeout: float | timedelta | None
) -> Score[Any]:
    """The result of a child. Raises ChildFailed when it has none, TimeoutError when it has not ended in time."""
    wait = without_none(child_id=task_id, timeout_ms=_duration(timeout, "timeout"))
    with replay.at("task", task_type) as place:
        if place.record is None:
            yield from _suspend(replay, place, wait)
        ended = replay.recall(place, PLAIN)
        if ended is None:
            raise TimeoutError(f"{task_type} {task_id} has not ended within the time-out")
        if ended["state"] != COMPLETED:
            raise ChildFailed(task_id, task_type, ended["state"], ended["error"])
        return form.read(_json.encode(ended["result"]).decode())


def _timer(replay: Replay, name: str, wait: Mapping[str, Any]) -> Score[None]:
    with replay.at("timer", name) as place:
        if place.record is None:
            yield from _suspend(replay, place, wait)


def _suspend(replay: Replay, place: Place, wait: Mapping[str, Any]) -> Score[None]:
    yield from replay.go_on(place)
    where = {"branch": place.branch.path, "ordinal": place.ordinal, "kind": place.kind, "name": place.name}
    raise Suspended([{**where, **wait}])


def _duration(duration: float | timedelta | None, name: str) -> int | None:
    asked = milliseconds(duration, name)
    if asked is not None and asked < 0:
        raise Invalid(f"{name} must not be negative", field=name)
    return asked
