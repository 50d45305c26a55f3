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
