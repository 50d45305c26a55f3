"""dispatch_outbox: sends the rings that the outbox asks for to the Celery queues of the fleets.

    take a batch ──► count what each queue needs ──► publish ──► settle

A row says "there may be work of this type"; the message says the same to whoever consumes the queue. So rows of one
queue are merged, a queue that is full of rings gets no more, and a backlog of a million tasks costs the broker
RINGS_PER_QUEUE messages. What a process took and did not settle, because it died, comes back after HOLD_MS and is
sent again.

A broker that is out is not the rows' fault: they are returned as they were. A row that can never be sent is rejected,
and the database parks it after its last attempt.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Row

from db.call import Json
from workers.broker import BrokerDown, Message, MessageRejected, one_by_one
from workers.chore import Counts, Tools

RING_TASK: Final = "celeriac.ring"
RINGS_PER_QUEUE: Final = 100
BATCH: Final = 500
ROUNDS: Final = 1000  # rows that were tried before come alone
HOLD_MS: Final = 15_000


@dataclass
class Outcome:
    """What became of the rows of one batch, by their ids."""

    published: list[int] = field(default_factory=list)
    returned: list[int] = field(default_factory=list)
    rejected: dict[int, str] = field(default_factory=dict)


def dispatch_outbox(tools: Tools) -> Counts:
    """Send rings until the outbox is empty, the broker fails or the run has taken its time."""
    totals: Counter[str] = Counter()
    for _ in tools.rounds(ROUNDS):
        if tools.settings.broker_url is None:
            break
        rows = tools.rows("take_outbox", channel="ring", max_rows=BATCH, hold_ms=HOLD_MS)
        if not rows:
            break
        outcome = send(tools, rows)
        totals.update(settle(tools, outcome))
        if outcome.returned:
            break  # the broker is out: the next tick tries again
    return totals


def send(tools: Tools, rows: Sequence[Row[Any]]) -> Outcome:
    """Publish what `rows` ask for; says what became of each."""
    outcome = Outcome()
    rings: dict[int, Message] = {}
    for row in rows:
        try:
            rings[row.id] = ring_of(tools, row)
        except MessageRejected as reason:
            outcome.rejected[row.id] = str(reason)
    try:
        outcome.rejected.update(publish(tools, rings))
        outcome.published = [row_id for row_id in rings if row_id not in outcome.rejected]
    except BrokerDown:
        outcome.returned = list(rings)
    return outcome


def settle(tools: Tools, outcome: Outcome) -> Counts:
    """Tell the database what became of the rows; the answer counts them."""
    rejected = [{"id": row_id, "error": error} for row_id, error in outcome.rejected.items()]
    settled = tools.one(
        "settle_outbox", published=outcome.published, returned=outcome.returned, rejected=Json(json.dumps(rejected))
    )
    return {
        "published": settled.published,
        "returned": settled.returned,
        "rejected": settled.rejected,
        "parked": settled.parked,
    }


def ring_of(tools: Tools, row: Row[Any]) -> Message:
    """The message that an outbox row stands for. Raises MessageRejected when there is none."""
    try:
        payload = json.loads(row.payload)
    except (TypeError, ValueError, RecursionError) as wrong:
        raise MessageRejected(f"the payload cannot be read: {wrong}") from wrong
    task_type = payload.get("task_type") if isinstance(payload, dict) else None
    if not isinstance(task_type, str) or not task_type:
        raise MessageRejected("the payload names no task_type")
    message = Message(row.key or "", RING_TASK, (task_type,))
    tools.broker.encode(message)
    return message


def publish(tools: Tools, rings: dict[int, Message]) -> dict[int, str]:
    """Publish the rings of one batch; the answer has the reason for each row that was rejected. Raises BrokerDown."""
    wanted = list(dict.fromkeys(rings.values()))
    room, closed = rooms(tools, dict.fromkeys(ring.queue for ring in wanted))
    bad = {ring: closed[ring.queue] for ring in wanted if ring.queue in closed}
    good = [ring for ring in wanted if ring not in bad]
    try:
        tools.broker.publish(fill(tools, good, room))
    except MessageRejected:
        # One of them spoils the batch: find out which, so that the others do not pay for it.
        bad.update((good[index], reason) for index, reason in one_by_one(tools.broker, good).items())
    return {row_id: bad[ring] for row_id, ring in rings.items() if ring in bad}


def rooms(tools: Tools, queues: Iterable[str]) -> tuple[dict[str, int], dict[str, str]]:
    """How many rings each queue has room for, and of those that are closed to us why. Raises BrokerDown."""
    room: dict[str, int] = {}
    closed: dict[str, str] = {}
    for queue in queues:
        try:
            room[queue] = RINGS_PER_QUEUE - tools.broker.queued(queue)
        except MessageRejected as reason:
            closed[queue] = str(reason)
    return room, closed


def fill(tools: Tools, wanted: Sequence[Message], room: dict[str, int]) -> list[Message]:
    """As many copies of each ring as there is ready work of its type, as far as its queue has room."""
    ready = ready_by_type(tools, [ring.arguments[0] for ring in wanted])
    messages: list[Message] = []
    left = {ring: max(1, ready.get(ring.arguments[0], 0)) for ring in wanted}
    # In turns, so that the first type of a queue does not take the room of the others.
    while left := {ring: count for ring, count in left.items() if count > 0 and room[ring.queue] > 0}:
        for ring in left:
            if room[ring.queue] > 0:
                messages.append(ring)
                room[ring.queue] -= 1
                left[ring] -= 1
    return messages


def ready_by_type(tools: Tools, task_types: list[str]) -> dict[str, int]:
    rows = tools.rows("ready_types", task_types=task_types, max_tasks=RINGS_PER_QUEUE)
    return {row.task_type: row.ready for row in rows}
