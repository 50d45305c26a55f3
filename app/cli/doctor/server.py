"""Checks of the Postgres server itself: does it keep what it confirms, and is it one that we know."""

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from app.cli.database import select
from app.cli.doctor.finding import Finding, Severity

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from app.settings import Settings

OLDEST_VERSION, NEWEST_VERSION = 15, 18
MOST_SKEW_SECONDS = 2.0
# Processes that hold a pool of CELERIAC_DATABASE_POOL besides the API: a maintenance worker and one to spare.
OTHER_POOLS = 2


def known_version(conn: "Connection", _: "Settings") -> list[Finding]:
    version = int(shown(conn, "server_version_num")) // 10_000
    if OLDEST_VERSION <= version <= NEWEST_VERSION:
        return []
    what = f"Postgres {version}; tested are {OLDEST_VERSION} to {NEWEST_VERSION}"
    return [Finding("known_version", what, "database", "move to a tested version")]


def commits_are_kept(conn: "Connection", _: "Settings") -> list[Finding]:
    """A lease that is handed out and forgotten by a crash could be handed out again with the same fencing token."""
    wanted = {"synchronous_commit": "off", "fsync": "off", "full_page_writes": "off"}
    return [
        Finding("commits_are_kept", f"{name} is off: a crash loses confirmed work", "database", f"set {name} = on")
        for name, unsafe in wanted.items()
        if shown(conn, name) == unsafe
    ]


def takes_writes(conn: "Connection", _: "Settings") -> list[Finding]:
    if select(conn, "select pg_is_in_recovery() as standby")[0]["standby"]:
        fix = "point CELERIAC_DATABASE_URL at the primary"
        return [Finding("takes_writes", "this server is a standby and takes no writes", "database", fix)]
    if shown(conn, "default_transaction_read_only") == "on":
        fix = "set default_transaction_read_only = off for this role and database"
        return [Finding("takes_writes", "transactions are read-only by default", "database", fix)]
    return []


def clocks_agree(conn: "Connection", _: "Settings") -> list[Finding]:
    """Leases live by the database's clock alone; a skew spoils JWT lifetimes and the reading of logs."""
    before = time.time()
    theirs: datetime = select(conn, "select clock_timestamp() as now")[0]["now"]
    after = time.time()
    skew = theirs.astimezone(UTC).timestamp() - (before + after) / 2
    if abs(skew) <= MOST_SKEW_SECONDS + (after - before) / 2:
        return []
    what = f"the database's clock is {abs(skew):.1f} s {'ahead of' if skew > 0 else 'behind'} this machine's"
    return [Finding("clocks_agree", what, "this machine and the database", "run a time daemon (chrony) on both")]


def connections_suffice(conn: "Connection", settings: "Settings") -> list[Finding]:
    free = int(shown(conn, "max_connections")) - int(shown(conn, "superuser_reserved_connections"))
    pools = settings.database_pool * (settings.api_processes + OTHER_POOLS)
    if pools <= free:
        return []
    what = f"the pools may ask for {pools} connections, the server gives {free}"
    fix = "raise max_connections, or lower CELERIAC_DATABASE_POOL or CELERIAC_API_PROCESSES"
    return [Finding("connections_suffice", what, "database", fix)]


def pooler(conn: "Connection", _: "Settings") -> list[Finding]:
    """Celeriac uses no session state, so a pooler is fine; whoever looks for a fault wants to know that it is there."""
    told = backend_the_driver_was_told(conn)
    seen = {select(conn, "select pg_backend_pid() as pid")[0]["pid"] for _ in range(3)}
    if seen == {told}:
        return []
    mode = "in transaction mode " if len(seen) > 1 else ""
    what = f"a pooler {mode}stands between this machine and the database"
    fix = "nothing: this is supported, but its own limits and time-outs apply"
    return [Finding("pooler", what, "connection", fix, Severity.NOTE)]


def backend_the_driver_was_told(conn: "Connection") -> int:
    driver: Any = conn.connection.driver_connection
    return int(driver.info.backend_pid)


def shown(conn: "Connection", name: str) -> str:
    """A server setting as this session sees it."""
    return str(select(conn, "select current_setting(:name) as value", name=name)[0]["value"])


CHECKS = [known_version, commits_are_kept, takes_writes, clocks_agree, connections_suffice, pooler]
