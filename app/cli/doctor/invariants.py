"""What must be true of every row, whatever happened: each a query for rows that break it, and each must find none.

The table constraints refuse most of this at once. It is looked at all the same, since a restore without constraints, a
hand with psql or a torn index can break what no statement of ours can.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.cli.database import select
from app.cli.doctor.finding import DatabaseCheck, Finding

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from app.settings import Settings

SHOWN_ROWS = 3
CALL_FOR_HELP = "stop the workers, keep a copy of the database, and report it: no statement of Celeriac does this"


@dataclass(frozen=True)
class Invariant:
    """`broken_by` selects one text column: which row breaks it, and how."""

    name: str
    what: str
    broken_by: str
    fix: str = CALL_FOR_HELP


INVARIANTS: Sequence[Invariant] = (
    Invariant(
        "one_lease_a_task",
        "a task is in the queue more than once",
        "select task_id::text from celeriac.queue group by task_id having count(*) > 1",
        "reindex table celeriac.queue after removing the older row; " + CALL_FOR_HELP,
    ),
    Invariant(
        "locked_says_by_whom",
        "a LOCKED task has no owner, principal, token or expiry",
        """
        select task_id::text from celeriac.queue
         where state = 'LOCKED'
           and (num_nulls(lease_owner, lease_principal, leased_at, lease_expires_at, reap_at) > 0 or fencing_token <= 0)
        """,
    ),
    Invariant(
        "only_locked_has_an_owner",
        "a task that nobody holds has an owner",
        "select task_id::text from celeriac.queue where state <> 'LOCKED' and lease_owner is not null",
    ),
    Invariant(
        "open_is_queued",
        "an open task is not in the queue: nobody will ever fetch it",
        """
        select t.id::text from celeriac.task t
         where t.state = 'OPEN' and not exists (select from celeriac.queue q where q.task_id = t.id)
        """,
    ),
    Invariant(
        "queued_is_open",
        "the queue holds a task that has ended, waits or does not exist",
        """
        select q.task_id || ' ' || coalesce(t.state, 'has no task') from celeriac.queue q
          left join celeriac.task t on t.id = q.task_id
         where t.state is distinct from 'OPEN'
        """,
    ),
    Invariant(
        "queue_agrees_with_task",
        "task and queue disagree about type, version or priority",
        """
        select q.task_id::text from celeriac.queue q join celeriac.task t on t.id = q.task_id
         where (q.task_type, q.version, q.priority) is distinct from (t.task_type, t.version, t.priority)
        """,
    ),
    Invariant(
        "a_token_is_one_hand_over",
        "two open tasks share a fencing token",
        """
        select fencing_token::text from celeriac.queue
         where fencing_token > 0 group by fencing_token having count(*) > 1
        """,
    ),
    Invariant(
        "tokens_come_from_the_sequence",
        "a fencing token is higher than the sequence it comes from: it would be given out a second time",
        """
        select h.fencing_token::text
          from (select max(fencing_token) from celeriac.queue union all select max(fencing_token) from celeriac.task)
               as h(fencing_token),
               celeriac.fencing_token s
         where h.fencing_token > s.last_value
        """,
        "select setval('celeriac.fencing_token', …) above the highest token, before any worker fetches",
    ),
    Invariant(
        "keys_know_their_task",
        "an idempotency key points to another task than the one that carries it",
        """
        select t.task_type || ' ' || t.idempotency_key from celeriac.task t
          left join celeriac.idempotency i on i.task_type = t.task_type and i.key = t.idempotency_key
         where t.idempotency_key is not null and i.task_id is distinct from t.id
        """,
    ),
    Invariant(
        "waiting_is_written_down",
        "a task waits without the row that it would be woken from, or the other way round",
        """
        select t.id::text from celeriac.task t
         where t.state = 'WAITING' and not exists (select from celeriac.waiting w where w.task_id = t.id)
         union all
        select w.task_id || ' ' || coalesce(t.state, 'has no task') from celeriac.waiting w
          left join celeriac.task t on t.id = w.task_id
         where t.state is distinct from 'WAITING'
        """,
    ),
    Invariant(
        "waiting_is_for_something",
        "a task waits for nothing: nothing will ever wake it",
        """
        select w.task_id::text from celeriac.waiting w
         where not exists (select from celeriac.wait a where a.task_id = w.task_id and a.armed)
        """,
        "celeriac tasks cancel; " + CALL_FOR_HELP,
    ),
    Invariant(
        "only_waiting_can_be_woken",
        "something would wake a task that does not wait",
        """
        select a.task_id || ' ' || a.kind || ' ' || a.name from celeriac.wait a
         where a.armed and not exists (select from celeriac.waiting w where w.task_id = a.task_id)
        """,
    ),
    Invariant(
        "awaited_children_are_open",
        "a task waits for another one that has ended, or is not there",
        """
        select a.task_id || ' for ' || a.child_id from celeriac.wait a
          left join celeriac.task t on t.id = a.child_id
         where a.armed and a.child_id is not null and coalesce(t.state not in ('OPEN', 'WAITING'), true)
           and not exists (select from celeriac.follow_up f where f.kind = 'child' and f.subject = a.child_id)
        """,
        "celeriac tasks cancel; " + CALL_FOR_HELP,
    ),
    Invariant(
        "slots_are_right",
        "the slots of a concurrency key are not those of the tasks that hold them, or a task is BLOCKED for nothing",
        """
        select f.fault || ': ' || f.task_type || ' ' || f.key || coalesce(' ' || f.task_id, '')
          from celeriac.slot_faults f
        """,
        "celeriac types set NAME --concurrency 0, then the limit again; " + CALL_FOR_HELP,
    ),
    Invariant(
        "unknown_has_an_incident",
        "an operation is UNKNOWN and no open incident asks for a decision",
        """
        select o.id::text from celeriac.operation o
         where o.state = 'UNKNOWN'
           and not exists (select from celeriac.incident i where i.operation_id = o.id and i.resolved_at is null)
        """,
        "celeriac operations resolve; " + CALL_FOR_HELP,
    ),
    Invariant(
        "incidents_hold_their_task",
        "an incident is open although its task does not wait for a decision",
        """
        select i.id::text from celeriac.incident i
         where i.resolved_at is null and i.kind <> 'operation_unknown' and i.instance_id is null
           and not exists (select from celeriac.wait a where a.task_id = i.task_id and a.incident_id = i.id and a.armed)
        """,
    ),
    Invariant(
        "what_is_undone_has_a_saga",
        "a task is being undone without a rollback that has begun, or the other way round",
        """
        select u.task_id::text
          from (select q.task_id from celeriac.queue q where q.undoing
                 union all select w.task_id from celeriac.waiting w where w.undoing) u
         where not exists (select from celeriac.saga s where s.task_id = u.task_id and s.ended_at is null)
         union all
        select s.task_id::text from celeriac.saga s
         where s.ended_at is null
           and not exists (select from celeriac.queue q where q.task_id = s.task_id and q.undoing)
           and not exists (select from celeriac.waiting w where w.task_id = s.task_id and w.undoing)
        """,
    ),
    Invariant(
        "open_instances_stand_somewhere",
        "an open process instance has no token, and nothing has happened to it: it will never move",
        """
        select i.id::text from celeriac.instance i
         where i.ended_at is null
           and not exists (select from celeriac.token t where t.instance_id = i.id)
           and not exists (select from celeriac.fact f where f.instance_id = i.id)
        """,
        "celeriac instances cancel; " + CALL_FOR_HELP,
    ),
    Invariant(
        "only_open_instances_have_tokens",
        "a token or a wait is of an instance that has ended or is not there",
        """
        select p.instance_id::text
          from (select t.instance_id from celeriac.token t union select w.instance_id from celeriac.event_wait w) p
          left join celeriac.instance i on i.id = p.instance_id
         where i.id is null or i.ended_at is not null
        """,
    ),
    Invariant(
        "work_has_somebody_at_it",
        "a token stands on a task that is not open, without an incident: nothing will ever move it",
        """
        select t.instance_id || ' at ' || t.node from celeriac.token t
         where t.phase = 'STANDING' and not t.stuck
           and exists (select from celeriac.task k where k.token_id = t.uid)
           and not exists (select from celeriac.task k where k.token_id = t.uid and k.state in ('OPEN', 'WAITING'))
           and not exists (select from celeriac.fact f where f.instance_id = t.instance_id)
        """,
        "celeriac instances cancel; " + CALL_FOR_HELP,
    ),
    Invariant(
        "stuck_tokens_have_an_incident",
        "a token is stuck and no open incident asks for a decision",
        """
        select t.instance_id || ' at ' || t.node from celeriac.token t
         where t.stuck
           and not exists (select from celeriac.incident n where n.token_uid = t.uid and n.resolved_at is null)
           and not exists (select from celeriac.fact f where f.instance_id = t.instance_id)
        """,
        "celeriac instances cancel; " + CALL_FOR_HELP,
    ),
    Invariant(
        "constraints_are_valid",
        "a constraint is not validated: it holds for new rows only",
        """
        select c.conrelid::regclass || ' ' || c.conname from pg_constraint c
          join pg_namespace n on n.oid = c.connamespace
         where n.nspname = 'celeriac' and not c.convalidated
        """,
        "alter table … validate constraint …",
    ),
    Invariant(
        "indexes_are_valid",
        "an index is not valid",
        """
        select i.indexrelid::regclass::text from pg_index i
          join pg_class c on c.oid = i.indexrelid join pg_namespace n on n.oid = c.relnamespace
         where n.nspname = 'celeriac' and not (i.indisvalid and i.indisready)
        """,
        "reindex index concurrently …",
    ),
)


def as_check(invariant: Invariant) -> DatabaseCheck:
    """The invariant as a check with the name of the invariant."""

    def check(conn: "Connection", _: "Settings") -> list[Finding]:
        # The query is one of those above; nothing in it comes from outside.
        counted = f"select place, count(*) over () as number from ({invariant.broken_by}) b(place) limit :rows"  # noqa: S608
        broken = select(conn, counted, rows=SHOWN_ROWS)
        if not broken:
            return []
        places = ", ".join(row["place"] for row in broken)
        more = broken[0]["number"] - len(broken)
        where = f"{places} and {more} more" if more else places
        return [Finding(invariant.name, invariant.what, where, invariant.fix)]

    check.__name__ = invariant.name
    return check


CHECKS = [as_check(invariant) for invariant in INVARIANTS]
