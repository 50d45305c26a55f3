"""`celeriac doctor`: what is wrong with this installation, and how to mend it."""

import typer

from app.cli.database import settings
from app.cli.exits import ExitCode
from app.cli.options import Json
from app.cli.output import document, remark


def doctor(as_json: Json = False) -> None:
    """Say what is wrong with this installation. Checks settings, database, Redis, chores, stuck work and invariants."""
    from app.cli.doctor.examine import examine

    report = examine(settings())
    if as_json:
        document({"checks": report.checks, "findings": [finding.as_json() for finding in report.findings]})
    else:
        for finding in report.findings:
            print(finding.as_text())
        remark(f"checks: {report.checks}, findings: {len(report.findings)}")
    if report.unreachable:
        raise typer.Exit(ExitCode.UNREACHABLE)
    if report.problems:
        raise typer.Exit(ExitCode.PROBLEMS)
