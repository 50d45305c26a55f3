"""`celeriac deploy` and `celeriac start`: models into the database, and instances of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.advancing import advance_now
from app.cli.bpmn import Delegates
from app.cli.database import connection, select
from app.cli.exits import ExitCode, Stop
from app.cli.options import Json, json_option
from app.cli.output import cell, document, remark

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def deploy(
    files: Annotated[list[Path], typer.Argument(help="Models, and other files to be kept with them.")],
    name: Annotated[str | None, typer.Option(help="Of the deployment; without, that of the first file.")] = None,
    delegates: Annotated[
        Delegates, typer.Option(help="What Java classes and beans become: an error, or topics of their names.")
    ] = Delegates.ERROR,
    ignore_unrunnable: Annotated[
        bool, typer.Option("--ignore-unrunnable", help="Ignore listeners and scripts that cannot be run.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Deploy BPMN files, all or none. Each process that is not as deployed before gets a new version.

    Everything that is wrong is told at once, with file, line and element.
    """
    from app import exact_json
    from app.bpmn.options import Options
    from app.deployment import NotDeployable, Resource, prepared
    from db.call import one, rows

    resources = [Resource(file.name, _content(file)) for file in files]
    if len({resource.name for resource in resources}) < len(resources):
        raise Stop(ExitCode.USAGE, "two of the files have one name")
    options = Options(delegates.value, "ignore" if ignore_unrunnable else "error")
    with connection() as conn:
        try:
            arguments = prepared(name or resources[0].name, resources, options, one(conn, "now")[0])
        except NotDeployable as refused:
            from dataclasses import asdict

            findings = [{"resource": file, **asdict(finding)} for file, finding in refused.findings]
            _tell(findings, as_json)
            raise Stop(ExitCode.FAILED, str(refused)) from None
        deployed = rows(conn, "deploy_models", **arguments)
    findings = exact_json.loads(arguments["report"])
    if as_json:
        shown = [{"definition_id": row.definition_id, "key": row.key, "version": row.version} for row in deployed]
        first = {"deployment_id": deployed[0].deployment_id, "created": deployed[0].created}
        document(first | {"definitions": shown, "findings": findings})
        return
    _tell(findings, as_json)
    for row in deployed:
        what = "is deployed" if row.created else "is there already, from the same bytes"
        remark(f"{row.key} version {row.version} {what}")


def start(
    key: Annotated[str, typer.Argument(help="The key of the process (its id in the model).")],
    version: Annotated[int | None, typer.Option(min=1, help="Which version; without, the latest.")] = None,
    business_key: Annotated[str | None, typer.Option(help="What you call this instance.")] = None,
    variables: Annotated[str, typer.Option(metavar="JSON", help="What it begins with: a JSON object.")] = "{}",
    idempotency_key: Annotated[
        str | None, typer.Option(help="A second start with this key gives the first one's instance.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Start an instance of a process. It is moved to its first tasks and waits at once."""
    from db.call import one

    given = json_option(variables, "--variables")
    with connection() as conn:
        found = select(
            conn,
            "select * from celeriac.definitions where key = :key and (cast(:version as integer) is null"
            " or version = cast(:version as integer)) order by version desc limit 1",
            key=key,
            version=version,
        )
        if not found:
            raise Stop(ExitCode.FAILED, f"there is no process {key}" + (f" of version {version}" if version else ""))
        row = one(
            conn,
            "start_instance",
            definition_id=found[0]["definition_id"],
            business_key=business_key,
            variables=given,
            idempotency_key=idempotency_key,
        )
        advance_now(conn, [row.instance_id])
    if as_json:
        named = {"process_key": found[0]["key"], "process_version": found[0]["version"]}
        document({"instance_id": row.instance_id, **named, "created": row.created})
    else:
        print(row.instance_id)
        if not row.created:
            remark("it was started before with this idempotency key")


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise Stop(ExitCode.FAILED, f"{file} cannot be read: {error.strerror}") from None


def _tell(findings: "Sequence[Mapping[str, Any]]", as_json: bool) -> None:
    if as_json:
        document({"findings": findings})
        return
    for finding in findings:
        element = f"{finding['element']}: " if finding["element"] else ""
        told = cell(f"{element}{finding['message']}")
        print(f"{finding['resource']}:{finding['line']}: {finding['severity']}: {told}")
