"""Runs every check, each in a read-only transaction of its own with a time limit, and collects what they find."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.cli.database import select
from app.cli.doctor import broker, chores, installation, invariants, processes, server, stuck
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
    first = [*server.CHECKS, installation.is_migrated]
    findings = run_all(first, conn, settings)
    if any(finding.check == installation.is_migrated.__name__ for finding in findings):
        return len(first), findings
    checks = [*installation.CHECKS, *stuck.CHECKS, *processes.CHECKS, *invariants.CHECKS]
    return len(first) + len(checks), findings + run_all(checks, conn, settings)


def run_all(checks: Sequence[DatabaseCheck], conn: "Connection", settings: "Settings") -> list[Finding]:
    """What the checks find; one note names all that this role may not look at."""
    findings: list[Finding] = []
    unseen = []
    for check in checks:
        try:
            findings += run(check, conn, settings)
        except MayNotLook:
            unseen.append(check.__name__)
    if unseen:
        what = f"not looked at, since the role of this URL may not read it: {', '.join(unseen)}"
        fix = "run doctor with the URL of the schema's owner"
        findings.append(Finding("rights_of_doctor", what, "CELERIAC_DATABASE_URL", fix, Severity.NOTE))
    return findings


class MayNotLook(Exception):
    """The role of the URL lacks the right to read what a check looks at."""


def run(check: DatabaseCheck, conn: "Connection", settings: "Settings") -> list[Finding]:
    """One check. One that takes too long is itself a finding; raises MayNotLook."""
    from sqlalchemy.exc import DBAPIError

    try:
        with conn.execution_options(isolation_level="READ COMMITTED").begin():
            select(conn, "select set_config('transaction_read_only', 'on', true)")
            select(conn, "select set_config('statement_timeout', :ms, true)", ms=str(round(CHECK_SECONDS * 1000)))
            return check(conn, settings)
    except DBAPIError as error:
        match getattr(error.orig, "sqlstate", None):
            case "42501":
                raise MayNotLook from error
            case "57014":
                what, fix = f"not finished within {CHECK_SECONDS:g} s", "run doctor when the server has less to do"
                return [Finding(check.__name__, what, "database", fix, Severity.NOTE)]
        raise
