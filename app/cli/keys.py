"""`celeriac keys`: API keys. A key is shown once, when it is made; the database keeps only its hash."""

import sys
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from app.cli.database import connection, select
from app.cli.options import TIME_FORMATS, TIME_HELP, Json, Yes, in_utc, words
from app.cli.output import agreed, document, facts, remark, table

if TYPE_CHECKING:
    from sqlalchemy import Connection

group = typer.Typer(help="Make, list and revoke API keys.", no_args_is_help=True)

ALL_VERBS = ["work", "enqueue", "read", "manage", "admin"]


@dataclass(frozen=True)
class MadeKey:
    """A new API key; `key` exists nowhere else."""

    key_id: UUID
    key: str
    name: str
    principal: str
    verbs: list[str]
    task_types: list[str]
    created_at: datetime
    expires_at: datetime | None


def make_key(
    conn: "Connection",
    name: str,
    verbs: list[str],
    task_types: list[str],
    principal: str | None = None,
    expires_at: datetime | None = None,
) -> MadeKey:
    """Make a key and store its hash; raises db.errors.Refused for a verb or a pattern that does not exist."""
    from app.api.keys_auth import key_hash
    from app.api.keys_auth import make_key as new_key
    from db.call import one

    key = new_key()
    row = one(
        conn,
        "create_api_key",
        name=name,
        key_hash=key_hash(key),
        principal_name=principal or name,
        verbs=verbs,
        task_types=task_types,
        expires_at=expires_at,
    )
    return MadeKey(row.key_id, key, name, principal or name, verbs, task_types, row.created_at, expires_at)


@group.command("create")
def create_key(
    name: Annotated[str, typer.Option(help="What the key is for.")],
    verbs: Annotated[str, typer.Option(help="Comma-separated: work, enqueue, read, manage, admin.")],
    task_types: Annotated[str, typer.Option(help="Comma-separated task types, '*' stands for anything: 'media.*'.")],
    principal: Annotated[str | None, typer.Option(help="Whom the key speaks for; the name when absent.")] = None,
    expires_at: Annotated[datetime | None, typer.Option(formats=TIME_FORMATS, metavar="TIME", help=TIME_HELP)] = None,
    as_json: Json = False,
) -> None:
    """Make an API key and print it, this once."""
    with connection() as conn:
        made = make_key(conn, name, words(verbs), words(task_types), principal, in_utc(expires_at))
    if as_json:
        document(asdict(made))
        return
    remark("this key is shown once:")
    print(made.key)
    facts({name: value for name, value in asdict(made).items() if name != "key"} if sys.stdout.isatty() else {})


@group.command("list")
def list_keys(as_json: Json = False) -> None:
    """List API keys, never the keys themselves."""
    with connection() as conn:
        found = select(conn, "select * from celeriac.api_keys order by created_at")
    if as_json:
        document({"keys": found})
        return
    columns = ["key_id", "name", "principal", "verbs", "task_types", "created_at", "expires_at", "revoked_at"]
    table(columns, found, "there is no key")


@group.command("revoke")
def revoke_key(key_id: UUID, yes: Yes = False, as_json: Json = False) -> None:
    """Revoke an API key; within seconds it opens nothing any more, also for polls that are waiting."""
    from db.call import one

    agreed(f"Revoke key {key_id}?", yes)
    with connection() as conn:
        row = one(conn, "revoke_api_key", key_id=key_id)
    if as_json:
        document({"key_id": row.key_id, "revoked_at": row.revoked_at})
    else:
        remark(f"key {row.key_id} is revoked")
