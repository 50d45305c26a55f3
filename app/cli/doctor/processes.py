"""Checks for process instances that stand still although something has happened, or is due."""

from typing import TYPE_CHECKING

from app.cli.database import select
from app.cli.doctor.finding import Finding
from app.cli.doctor.stuck import CHORES_FIX, OVERDUE_SECONDS, number

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from app.settings import Settings

UNWORKED_SECONDS = 60
SHOWN_INSTANCES = 3


def instances_move(conn: "Connection", _: "Settings") -> list[Finding]:
    """Whoever ends a task advances its instance, the chore does the rest within seconds. What is older fails."""
    still = select(
        conn,
        """
        select f.instance_id, count(*) over () as instances, min(f.at) as since
          from celeriac.fact f join celeriac.instance i on i.id = f.instance_id and not i.suspended
         where f.at < celeriac.now() - make_interval(secs => :seconds)
         group by f.instance_id order by min(f.at) limit :rows
        """,
        seconds=UNWORKED_SECONDS,
        rows=SHOWN_INSTANCES,
    )
    if not still:
        return []
    what = f"what happened to {still[0]['instances']} instances over {UNWORKED_SECONDS} s ago has not been worked in"
    where = "instances " + ", ".join(str(row["instance_id"]) for row in still)
    fix = f"look for the instance in the logs of celeriac maintenance and celeriac api; {CHORES_FIX}"
    return [Finding("instances_move", what, where, fix)]


def event_timers_fire(conn: "Connection", _: "Settings") -> list[Finding]:
    late = number(
        conn,
        """
        select (select count(*) from celeriac.event_wait
                 where due_at < celeriac.now() - make_interval(secs => :seconds))
             + (select count(*) from celeriac.start_wait
                 where due_at < celeriac.now() - make_interval(secs => :seconds)) as count
        """,
    )
    if not late:
        return []
    what = f"{late} timers of processes were due over {OVERDUE_SECONDS} s ago and have not fired"
    return [Finding("event_timers_fire", what, "chore advance", CHORES_FIX)]


CHECKS = [instances_move, event_timers_fire]
