"""What must hold whatever happens, asked of the tables alone: it knows nothing of the model.

`broken()` looks at one moment; `Memory` compares each moment with all that it has seen before.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

# Each line answers with the tasks that break one rule.
BROKEN = text("""
    select 'an open task without a queue row', t.id from celeriac.task t
     where t.state = 'OPEN' and not exists (select from celeriac.queue q where q.task_id = t.id)
    union all
    select 'a queue row without an open task', q.task_id from celeriac.queue q
     where not exists (select from celeriac.task t where t.id = q.task_id and t.state = 'OPEN')
    union all
    select 'task and queue disagree', t.id from celeriac.task t join celeriac.queue q on q.task_id = t.id
     where (t.task_type, t.version, t.priority) is distinct from (q.task_type, q.version, q.priority)
        or q.payload_bytes <> octet_length(t.variables::text)
        or num_nonnulls(t.worker_id, t.principal, t.started_at, t.ended_at, t.result, t.error) > 0
    union all
    select 'an open row with neither an owner nor a due time', q.task_id from celeriac.queue q
     where not coalesce(case q.state when 'LOCKED' then q.lease_owner <> '' and q.lease_principal <> ''
                                          and q.reap_at <= q.lease_expires_at and q.leased_at < q.lease_expires_at
                                     else isfinite(q.run_at) end, false)
    union all
    select 'ready before it is due', q.task_id from celeriac.queue q
     where q.state = 'READY' and q.run_at > celeriac.now()
    union all
    select 'counters out of range', q.task_id from celeriac.queue q
     where q.retries < 1 or q.attempts < q.expirations
    union all
    select 'ended before it began', t.id from celeriac.task t
     where t.ended_at < t.started_at or t.started_at < t.created_at
    union all
    select 'completed or failed without an attempt', t.id from celeriac.task t
     where t.state in ('COMPLETED', 'FAILED') and (t.attempts < 1 or t.worker_id is null or t.principal is null)
    union all
    select 'a task lost its idempotency key', t.id from celeriac.task t
     where t.idempotency_key is not null
       and not exists (select from celeriac.idempotency i
                        where (i.task_type, i.key, i.task_id) = (t.task_type, t.idempotency_key, t.id))
    union all
    select 'two tasks under one idempotency key', min(t.id::text)::uuid from celeriac.task t
     where t.idempotency_key is not null group by t.task_type, t.idempotency_key having count(*) > 1
    union all
    select 'history of a task that never was', h.task_id from celeriac.history h
     where not exists (select from celeriac.task t where t.id = h.task_id)
    union all
    select s.fault, s.task_id from celeriac.slot_faults s
    union all
    select 'more held than the limit of the key', min(s.task_id::text)::uuid
      from celeriac.slot s join celeriac.task_type t on t.name = s.task_type
     group by s.task_type, s.key, t.concurrency having count(*) > t.concurrency
    union all
    select 'a failure without a line in the timeline', t.id from celeriac.task t
     where t.state in ('FAILED', 'CANCELED')
       and not exists (select from celeriac.history h where h.task_id = t.id
                          and h.at = t.ended_at and h.kind in ('failed', 'lease_lost', 'canceled'))
""")
TOKENS = text("""
    select q.task_id, q.fencing_token from celeriac.queue q where q.fencing_token > 0
    union all select t.id, t.fencing_token from celeriac.task t where t.fencing_token is not null
""")
ENDED = text("""
    select t.id, t.redrives, t.state, t.result, t.error, t.ended_at, t.started_at, t.fencing_token, t.worker_id,
           t.attempts
      from celeriac.task t where t.ended_at is not null
""")
KEYS = text("select task_type, key, task_id, input_hash from celeriac.idempotency")
LIVE_LEASES = text("""
    select q.task_id, q.fencing_token, q.lease_expires_at from celeriac.queue q
     where q.state = 'LOCKED' and q.lease_expires_at > celeriac.now()
""")


def broken(connection: Connection) -> list[tuple[str, UUID]]:
    """The rules that do not hold now, each with a task that shows it."""
    return [(rule, task_id) for rule, task_id in connection.execute(BROKEN)]


class Memory:
    """What was seen of one database since it was empty; `look` raises AssertionError when something final has moved."""

    def __init__(self) -> None:
        self._task_of: dict[int, UUID] = {}
        self._newest: dict[UUID, int] = {}
        self._ended: dict[UUID, tuple[int, tuple[Any, ...]]] = {}
        self._keys: dict[tuple[str, str], tuple[Any, ...]] = {}
        self._leases: dict[UUID, tuple[int, datetime]] = {}

    def look(self, connection: Connection) -> None:
        self._tokens_only_grow_and_never_repeat(connection)
        self._terminal_is_final(connection)
        self._keys_are_for_ever(connection)
        self._a_live_lease_is_alone(connection)

    def _tokens_only_grow_and_never_repeat(self, connection: Connection) -> None:
        for task_id, token in connection.execute(TOKENS):
            assert self._task_of.setdefault(token, task_id) == task_id, f"token {token} was another task's"
            assert token >= self._newest.get(task_id, 0), f"token {token} of {task_id} is older than one seen before"
            self._newest[task_id] = token

    def _terminal_is_final(self, connection: Connection) -> None:
        for task_id, redrives, *end in connection.execute(ENDED):
            seen_redrives, seen = self._ended.get(task_id, (redrives, tuple(end)))
            assert redrives >= seen_redrives
            assert redrives > seen_redrives or seen == tuple(end), f"the end of {task_id} was rewritten"
            self._ended[task_id] = (redrives, tuple(end))

    def _keys_are_for_ever(self, connection: Connection) -> None:
        found = {(task_type, key): tuple(rest) for task_type, key, *rest in connection.execute(KEYS)}
        assert self._keys.items() <= found.items(), "an idempotency key was lost or points elsewhere"
        self._keys = found

    def _a_live_lease_is_alone(self, connection: Connection) -> None:
        """A task changes hands under a new token only; with the old one the lease can but be extended or end."""
        now_live = {task_id: (token, until) for task_id, token, until in connection.execute(LIVE_LEASES)}
        for task_id, (token, _) in now_live.items():
            before, _ = self._leases.get(task_id, (token, None))
            assert token >= before, f"{task_id} is held under a token that it was taken from"
        self._leases |= now_live
