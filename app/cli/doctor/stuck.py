"""Checks for work that stands still, and for what will make it stand still."""

from typing import TYPE_CHECKING

from app.cli.database import select
from app.cli.doctor.finding import Finding, Severity

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from app.settings import Settings

# The chores look every second; what they left lying for so long was not looked at.
OVERDUE_SECONDS = 30
LONG_WAIT_MS = 10 * 60_000
LONG_SNAPSHOT_MS = 60 * 60_000
CHORES_FIX = "start celeriac beat and celeriac maintenance; their logs say why they stopped"


def leases_are_expired(conn: "Connection", _: "Settings") -> list[Finding]:
    """expire_leases also runs within fetches of the same type, so this finds types that nobody fetches any more."""
    late = number(
        conn,
        """
        select count(*) from celeriac.queue
         where state = 'LOCKED' and reap_at < celeriac.now() - make_interval(secs => :seconds)
           and lease_expires_at < celeriac.now() - make_interval(secs => :seconds)
        """,
    )
    if not late:
        return []
    what = f"{late} leases ran out over {OVERDUE_SECONDS} s ago and still hold their task"
    return [Finding("leases_are_expired", what, "chore expire_leases", CHORES_FIX)]


def due_is_promoted(conn: "Connection", _: "Settings") -> list[Finding]:
    late = number(
        conn,
        """
        select count(*) from celeriac.queue
         where state = 'SCHEDULED' and run_at < celeriac.now() - make_interval(secs => :seconds)
        """,
    )
    if not late:
        return []
    what = f"{late} tasks were due over {OVERDUE_SECONDS} s ago and are still SCHEDULED"
    return [Finding("due_is_promoted", what, "chore promote_due", CHORES_FIX)]


def number(conn: "Connection", counted: str) -> int:
    """The one number that a query over what is overdue answers with."""
    return int(select(conn, counted, seconds=OVERDUE_SECONDS)[0]["count"])


def outbox_moves(conn: "Connection", _: "Settings") -> list[Finding]:
    findings = []
    for row in select(conn, "select *, celeriac.now() - oldest_due_at as late from celeriac.outbox_depth"):
        channel = f"outbox channel {row['channel']}"
        if row["parked"]:
            what = f"{row['parked']} rows are parked: publishing them failed again and again"
            findings.append(Finding("outbox_moves", what, channel, "mend the cause, then celeriac outbox resend"))
        if row["pending"] and row["late"].total_seconds() > OVERDUE_SECONDS:
            what = f"{row['pending']} rows wait, the oldest for {row['late'].total_seconds():.0f} s"
            findings.append(Finding("outbox_moves", what, channel, f"reach the broker; {CHORES_FIX}"))
    return findings


def types_have_workers(conn: "Connection", _: "Settings") -> list[Finding]:
    """Workers that call the HTTP API without registering are not seen here, hence only types that really wait."""
    unserved = select(
        conn,
        """
        select o.task_type, o.age_ms from celeriac.oldest_ready o
         where o.age_ms > :wait
           and not exists (select from celeriac.live_workers w where o.task_type = any (w.task_types))
         order by o.age_ms desc
        """,
        wait=OVERDUE_SECONDS * 1000,
    )
    return [
        Finding(
            "types_have_workers",
            f"tasks wait for {row['age_ms'] / 1000:.0f} s and no live worker has registered for their type",
            f"task type {row['task_type']}",
            "start a worker for this type",
        )
        for row in unserved
    ]


def nothing_waits_long(conn: "Connection", _: "Settings") -> list[Finding]:
    waiting = select(conn, "select * from celeriac.oldest_ready where age_ms > :wait", wait=LONG_WAIT_MS)
    return [
        Finding(
            "nothing_waits_long",
            f"the oldest ready task waits for {row['age_ms'] / 60_000:.0f} min",
            f"task type {row['task_type']}",
            "add workers, or raise their concurrency",
            Severity.NOTE,
        )
        for row in waiting
    ]


def dead_letters(conn: "Connection", _: "Settings") -> list[Finding]:
    failed = select(conn, "select task_type, count(*) as tasks from celeriac.dead_letters group by 1 order by 2 desc")
    return [
        Finding(
            "dead_letters",
            f"{row['tasks']} tasks are FAILED",
            f"task type {row['task_type']}",
            "celeriac tasks list --state failed; mend the cause, then celeriac tasks redrive",
            Severity.NOTE,
        )
        for row in failed
    ]


def versions_have_workers(conn: "Connection", _: "Settings") -> list[Finding]:
    """Of types that live workers run, so versions that were left behind; a type without any is another finding."""
    left = select(
        conn,
        """
        select s.* from celeriac.stuck_versions s
         where s.oldest_created_at < celeriac.now() - make_interval(secs => :seconds)
           and exists (select from celeriac.live_workers w where s.task_type = any (w.task_types))
         order by s.oldest_created_at
        """,
        seconds=OVERDUE_SECONDS,
    )
    return [
        Finding(
            "versions_have_workers",
            f"{row['open_tasks']} open and {row['waiting_tasks']} waiting tasks, and no live worker runs this version",
            f"task type {row['task_type']}, version {row['version']}",
            "start a worker that registers this version as well, or celeriac tasks cancel",
            Severity.PROBLEM if row["open_tasks"] else Severity.NOTE,
        )
        for row in left
    ]


def incidents_are_resolved(conn: "Connection", _: "Settings") -> list[Finding]:
    waiting = select(
        conn,
        """
        select case when i.instance_id is null then 'task type ' || i.task_type else 'process ' || p.process_key end
                   as place,
               i.kind, count(*) as incidents, extract(epoch from celeriac.now() - min(i.created_at)) / 60 as minutes
          from celeriac.incidents i left join celeriac.instances p on p.instance_id = i.instance_id
         where i.resolved_at is null group by 1, 2 order by 3 desc
        """,
    )
    return [
        Finding(
            "incidents_are_resolved",
            f"{row['incidents']} incidents {row['kind']} wait for a decision, the oldest for {row['minutes']:.0f} min",
            str(row["place"]),
            "celeriac operations list --state unknown, then celeriac operations resolve"
            if row["kind"] == "operation_unknown"
            else "celeriac incidents list, then celeriac incidents resolve",
        )
        for row in waiting
    ]


def timers_fire(conn: "Connection", _: "Settings") -> list[Finding]:
    late = number(
        conn,
        """
        select count(*) from celeriac.wait
         where armed and until < celeriac.now() - make_interval(secs => :seconds)
        """,
    )
    if not late:
        return []
    what = f"{late} waits were over {OVERDUE_SECONDS} s ago and their tasks have not been woken"
    return [Finding("timers_fire", what, "chore fire_timers", CHORES_FIX)]


def schedules_fire(conn: "Connection", _: "Settings") -> list[Finding]:
    findings = []
    late = number(
        conn,
        """
        select count(*) from celeriac.schedule
         where not paused and next_at < celeriac.now() - make_interval(secs => :seconds)
        """,
    )
    if late:
        what = f"{late} schedules were due over {OVERDUE_SECONDS} s ago and have not fired"
        findings.append(Finding("schedules_fire", what, "chore run_schedules", CHORES_FIX))
    for row in select(conn, "select name, error from celeriac.schedule where error is not null order by name limit 20"):
        fix = "mend it with celeriac schedules put"
        findings.append(Finding("schedules_fire", f"it cannot fire: {row['error']}", f"schedule {row['name']}", fix))
    return findings


def vacuum_can_clean(conn: "Connection", _: "Settings") -> list[Finding]:
    age_ms = select(conn, "select oldest_snapshot_age_ms as age_ms from celeriac.health")[0]["age_ms"]
    if age_ms is None or age_ms < LONG_SNAPSHOT_MS:
        return []
    what = f"a transaction holds a snapshot for {age_ms / 3_600_000:.1f} h: vacuum cannot clean, and fetches grow slow"
    return [Finding("vacuum_can_clean", what, "pg_stat_activity, order by backend_xmin", "end that transaction")]


def history_has_room(conn: "Connection", _: "Settings") -> list[Finding]:
    """The chore maintain_history makes next month's partition; rows without one pile up in the default partition."""
    ahead = select(
        conn,
        """
        select count(*) as ahead from pg_inherits i join pg_class c on c.oid = i.inhrelid
         where i.inhparent = 'celeriac.history'::regclass
           and strpos(pg_get_expr(c.relpartbound, c.oid),
                      'FROM (''' || to_char(celeriac.now() + interval '1 month', 'YYYY-MM')) > 0
        """,
    )[0]["ahead"]
    if ahead:
        return []
    what = "next month has no partition of the history yet"
    return [Finding("history_has_room", what, "celeriac.history", f"run celeriac migrate; {CHORES_FIX}")]


CHECKS = [
    leases_are_expired,
    due_is_promoted,
    outbox_moves,
    types_have_workers,
    nothing_waits_long,
    dead_letters,
    versions_have_workers,
    incidents_are_resolved,
    timers_fire,
    schedules_fire,
    vacuum_can_clean,
    history_has_room,
]
