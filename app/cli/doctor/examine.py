"""Runs every check, each in a read-only transaction of its own with a time limit, and collects what they find."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.cli.database import select
from app.cli.doctor import broker, chores, installation, invariants, server, stuck
from app.cli.doctor.finding import DatabaseCheck, Finding, Severity

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from app.settings import Settings

CHECK_SECONDS = 60.0


@dataclass(frozen=True)
class Report:
    """How many checks ran, and what they found."""

    checks: int
    findings: Sequence[Finding]
    unreachable: bool = False
    """The database or Redis did not answer, so that nothing, or not everything, could be looked at."""

    @property
    def problems(self) -> bool:
        return any(finding.severity is Severity.PROBLEM for finding in self.findings)


def examine(settings: "Settings") -> Report:
    """Look at everything; with a database that cannot be reached, at what is left."""
    from sqlalchemy.exc import DBAPIError

    from app.cli.failures import from_database
    from db.engine import sync_engine
    from db.errors import Unavailable

    findings = [finding for check in broker.CHECKS for finding in check(settings)]
    silent = any(finding.severity is Severity.PROBLEM for finding in findings)
    findings += [] if silent else [finding for check in chores.CHECKS for finding in check(settings)]
    outside = len(broker.CHECKS) + len(chores.CHECKS) + 1
    engine = sync_engine(settings.database_url)
    try:
        with engine.connect() as conn:
            checks, found = examine_database(conn, settings)
    except (DBAPIError, Unavailable) as error:
        why = from_database(getattr(error, "orig", None) or error).message
        fix = "start Postgres, or mend CELERIAC_DATABASE_URL"
        findings.insert(0, Finding("database_answers", why, "CELERIAC_DATABASE_URL", fix))
        return Report(outside, findings, unreachable=True)
    finally:
        engine.dispose()
    return Report(outside + checks, findings + found, unreachable=silent)


def examine_database(conn: "Connection", settings: "Settings") -> tuple[int, list[Finding]]:
    """The server first; what Celeriac installs there only when it is installed as this version wants it."""
    findings = [finding for check in server.CHECKS for finding in run(check, conn, settings)]
    not_migrated = run(installation.is_migrated, conn, settings)
    if not_migrated:
        return len(server.CHECKS) + 1, findings + not_migrated
    checks = [*installation.CHECKS, *stuck.CHECKS, *invariants.CHECKS]
    findings += [finding for check in checks for finding in run(check, conn, settings)]
    return len(server.CHECKS) + 1 + len(checks), findings


def run(check: DatabaseCheck, conn: "Connection", settings: "Settings") -> list[Finding]:
    """One check. A check that may not look, or takes too long, is itself a finding."""
    from sqlalchemy.exc import DBAPIError

    try:
        with conn.execution_options(isolation_level="READ COMMITTED").begin():
            select(conn, "select set_config('transaction_read_only', 'on', true)")
            select(conn, "select set_config('statement_timeout', :ms, true)", ms=str(round(CHECK_SECONDS * 1000)))
            return check(conn, settings)
    except DBAPIError as error:
        state = getattr(error.orig, "sqlstate", None)
        if state == "42501":
            fix = "run doctor with the URL of the role that migrates"
            what = "not looked at: the role may not read this"
        elif state == "57014":
            fix, what = "run doctor when the server has less to do", f"not finished within {CHECK_SECONDS:g} s"
        else:
            raise
        return [Finding(check.__name__, what, "database", fix, Severity.NOTE)]
