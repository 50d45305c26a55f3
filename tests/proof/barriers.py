"""Barriers inside the functions: copies of the shipped ones that can be made to wait after any of their statements.

A session names in `proof.pause_at` the barrier (1, 2, … as it meets them) at which it waits until the test, which holds
the gate, opens it. Product code knows nothing of it; only the test database is changed.
"""

import re
from collections.abc import Collection, Mapping

from sqlalchemy import Connection

from tests.proof.shipped import FUNCTIONS, install

GATE = 4_231_779_002
BARRIER = f"""
create function celeriac.barrier() returns boolean language plpgsql set search_path = pg_catalog as $$
declare
    place integer := coalesce(nullif(current_setting('proof.place', true), ''), '0')::integer + 1;
begin
    perform set_config('proof.place', place::text, false);
    if place::text = current_setting('proof.pause_at', true) then
        perform pg_advisory_lock_shared({GATE});
        perform pg_advisory_unlock_shared({GATE});
    end if;
    return false;
end $$;
"""
# Not PERFORM, which would set FOUND.
STOP = "; if celeriac.barrier() then end if;"
# A text in quotes or a comment may hold a semicolon that ends nothing.
STATEMENT_END = re.compile(r"('(?:[^']|'')*'|--[^\n]*)|;")
FUNCTION = re.compile(
    r"(language plpgsql(?: volatile)?(?: security definer)?\b.*?\$\$.*?\nbegin\n)(.*?)(\nend \$\$;)", re.DOTALL
)
TABLE = re.compile(
    r"celeriac\.(task|queue|idempotency|history|outbox|stream|fair_share|chore|ring|write_history"
    r"|step|operation|compensation|saga|incident|waiting|wait)\b"
)
STOPPED = frozenset({"chore", "lease", "outbox", "task"})


def with_barriers(script: str) -> str:
    """The same functions with a barrier after each of their statements that reads or writes a table."""
    return FUNCTION.sub(lambda function: function[1] + _stopped(function[2]) + function[3], script)


def _stopped(body: str) -> str:
    parts, begun = [], 0
    for end in STATEMENT_END.finditer(body):
        if end[0] == ";":
            statement = body[begun : end.start()]
            parts.append(statement + (STOP if TABLE.search(statement) else ";"))
            begun = end.end()
    return "".join(parts) + body[begun:]


def install_barriers(connection: Connection, changed: Mapping[str, str], stopped: Collection[str] = STOPPED) -> None:
    """Loads functions of these folders that touch tables anew, with barriers; `changed` has other texts for some."""
    install(connection, BARRIER)
    for file in sorted(FUNCTIONS.rglob("*.sql")):
        script = changed.get(file.stem) or file.read_text(encoding="utf-8")
        if file.parent.name in stopped and with_barriers(script) != script:
            install(connection, with_barriers(script))
