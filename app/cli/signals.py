"""`celeriac signals`: tell waiting tasks something, and see what nobody has taken yet."""

from typing import Annotated
from uuid import UUID

import typer

from app.cli.database import connection, select
from app.cli.options import Json, json_option
from app.cli.output import decoded, document, paged, remark

group = typer.Typer(help="Send signals to tasks that wait for them, look at those that are kept.", no_args_is_help=True)

WEEK_MS = 604_800_000


@group.command("list")
def list_signals(
    topic: Annotated[str | None, typer.Option(help="Only of this topic.")] = None,
    key: Annotated[str | None, typer.Option(help="Only with this key.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Also those that were taken or have expired.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Signals on one page.")] = 50,
    cursor: Annotated[UUID | None, typer.Option(help="Where the last page ended (its next_cursor).")] = None,
    as_json: Json = False,
) -> None:
    """List signals, newest first. Those kept for somebody who does not wait yet, unless --all says otherwise."""
    wanted = {"topic = :topic": topic, "key = :key": key, "signal_id < :cursor": cursor}
    conditions = [condition for condition, value in wanted.items() if value is not None]
    conditions += [] if every else ["taken_at is null and expires_at > celeriac.now()"]
    # Nothing in it comes from outside.
    asked = (
        f"select * from celeriac.signals where {' and '.join(conditions) or 'true'} order by signal_id desc limit :rows"  # noqa: S608
    )
    with connection() as conn:
        rows = select(conn, asked, topic=topic, key=key, cursor=cursor, rows=limit + 1)
    found = [row | {"payload": decoded(row["payload"])} for row in rows]
    columns = ["signal_id", "topic", "key", "broadcast", "sender", "sent_at", "expires_at", "taken_by", "payload"]
    paged("signals", found, limit, columns, "no signal", as_json)


@group.command("send")
def send_signal(
    topic: str,
    key: Annotated[str | None, typer.Option(help="Only to those who wait for the topic with this key.")] = None,
    payload: Annotated[str | None, typer.Option(metavar="JSON", help="What is told: any JSON.")] = None,
    ttl_ms: Annotated[int, typer.Option(help="How long it is kept when nobody waits yet, in milliseconds.")] = WEEK_MS,
    dedupe_id: Annotated[str | None, typer.Option(help="A second one with this id (and topic, key) is none.")] = None,
    broadcast: Annotated[
        bool, typer.Option("--broadcast", help="To all who wait, not only to the one that has waited longest.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Send a signal. To the task that waits longest for it, or to the first that will."""
    from db.call import one

    told = json_option(payload, "--payload")
    with connection() as conn:
        row = one(
            conn,
            "send_signal",
            topic=topic,
            key=key,
            payload=told,
            ttl_ms=ttl_ms,
            dedupe_id=dedupe_id,
            broadcast=broadcast,
        )
    if as_json:
        document({"signal_id": row.signal_id, "created": row.created, "delivered": row.delivered})
    elif not row.created:
        remark(f"signal {row.signal_id} was sent before")
    elif row.delivered:
        remark(f"signal {row.signal_id} woke {row.delivered} task{'s' * (row.delivered > 1)}")
    else:
        remark(f"signal {row.signal_id} is kept: no task waits for it now")
