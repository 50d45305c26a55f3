"""Send a signal in the caller's own transaction: whoever waits for it wakes when that transaction commits, or never.

`send_signal` takes a SQLAlchemy Session, scoped_session or Connection (2.0 or 2.1, any driver) or a psycopg Connection,
`asend_signal` their asyncio counterparts. They neither commit nor roll back. The connection's user needs the right to
execute `celeriac.send_signal`. About refusals the same holds as for `celeriac.enqueue`.

The rows of those who are woken stay locked until the transaction ends, and others who send to the same topic and key
wait for it: send signals late in a transaction, and commit soon.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from celeriac import _callers_connection
from celeriac._json import encode
from celeriac.values import SentSignal, signal_fields

if TYPE_CHECKING:
    from celeriac._callers_connection import AwaitedConnection, BlockingConnection

_TYPES: Final = {
    "topic": "text",
    "key": "text",
    "payload": "jsonb",
    "ttl_ms": "bigint",
    "dedupe_id": "text",
    "broadcast": "boolean",
}


def send_signal(
    conn: BlockingConnection,
    topic: str,
    key: str | None = None,
    payload: Any = None,
    *,
    ttl: float | timedelta | None = None,
    dedupe_id: str | None = None,
    broadcast: bool = False,
) -> SentSignal:
    """Send a signal in the transaction of `conn`. `payload` is any JSON of at most 1 MiB.

    One task gets it, the one that has waited longest; when none waits it is kept for `ttl` (seconds or a timedelta;
    7 days when None) for the first that does. A `broadcast` is for every task that waits now or within `ttl`. A second
    call with the same `dedupe_id` (per topic and key) sends nothing and answers as the first did; with another payload
    it raises IdempotencyConflict.
    """
    values = _values(topic, key, payload, ttl, dedupe_id, broadcast)
    return _read(conn, _callers_connection.rows(conn, _template(values), values))


async def asend_signal(
    conn: AwaitedConnection,
    topic: str,
    key: str | None = None,
    payload: Any = None,
    *,
    ttl: float | timedelta | None = None,
    dedupe_id: str | None = None,
    broadcast: bool = False,
) -> SentSignal:
    """`send_signal` for an AsyncSession, an AsyncConnection or a psycopg AsyncConnection."""
    values = _values(topic, key, payload, ttl, dedupe_id, broadcast)
    return _read(conn, await _callers_connection.arows(conn, _template(values), values))


def _values(
    topic: str,
    key: str | None,
    payload: Any,
    ttl: float | timedelta | None,
    dedupe_id: str | None,
    broadcast: bool,
) -> dict[str, Any]:
    fields = signal_fields(topic, key, payload, ttl, dedupe_id, broadcast)
    encode(fields)  # refuses here, by field, what Postgres would refuse or break off the transaction for
    return fields if payload is None else fields | {"payload": encode(payload, "payload").decode()}


def _template(values: dict[str, Any]) -> str:
    given = ", ".join(f"{name} => cast({{{name}}} as {_TYPES[name]})" for name in values)
    return (
        "select cast(signal_id as text), created, delivered, cast(to_json(task_types) as text)"  # noqa: S608 - names are ours
        f" from celeriac.send_signal({given})"
    )


def _read(conn: BlockingConnection | AwaitedConnection, rows: list[tuple[Any, ...]]) -> SentSignal:
    signal_id, created, delivered, task_types = rows[0]
    _callers_connection.note_types(conn, json.loads(task_types or "[]"))
    return SentSignal(signal_id, created, delivered)
