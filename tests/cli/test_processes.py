"""Processes on the command line: deploy, start, look, change, stop."""

from pathlib import Path

import pytest
from sqlalchemy import Connection

from db import call
from tests.app.engine.conftest import flow, model, task
from tests.cli.conftest import Celeriac

TWO = model('<startEvent id="s"/>' + task("a") + task("b") + '<endEvent id="e"/>' + flow("s", "a", "b", "e"))
BROKEN = model('<startEvent id="s"/>\n<serviceTask id="a"/>\n<callActivity id="c"/>' + flow("s", "a", "x"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "order.bpmn").write_bytes(TWO)
    return tmp_path / "order.bpmn"


def test_a_model_is_deployed_started_looked_at_and_stopped(celeriac: Celeriac, file: Path) -> None:
    deployed = celeriac("deploy", str(file), "--json").json
    assert [(one["key"], one["version"]) for one in deployed["definitions"]] == [("p", 1)]
    assert "is there already" in celeriac("deploy", str(file)).err
    started = celeriac("start", "p", "--business-key", "B-1", "--variables", '{"x": 1}')
    instance = started.out.strip()
    shown = celeriac("instances", "show", instance, "--svg", str(file.with_suffix(".svg")), "--json").json
    assert ([one["node"] for one in shown["tokens"]], shown["variables"]) == (["a"], {"x": 1})
    assert "1 tokens here" in file.with_suffix(".svg").read_text()
    assert "B-1" in celeriac("instances", "show", instance).out
    assert celeriac("instances", "suspend", instance, "--json").json["suspended"] is True
    assert instance in celeriac("instances", "list", "--suspended", "--key", "p").out
    changed = celeriac("instances", "variables", instance, "--set", '{"y": 2}', "--remove", "x", "--json").json
    assert changed["variables"] == {"y": 2}
    assert celeriac("instances", "resume", instance, "--json").json["suspended"] is False
    assert celeriac("instances", "migrate", instance, "2").code == 1
    file.write_bytes(TWO.replace(b'id="e"', b'id="e" name="the end"'))
    celeriac("deploy", str(file))
    assert celeriac("instances", "migrate", instance, "2", "--json").json["status"] == "ACTIVE"
    canceled = celeriac("instances", "cancel", instance, "--reason", "enough", "--yes", "--json").json
    assert canceled["status"] == "CANCELED"
    history = celeriac("instances", "history", instance, "--json").json["history"]
    assert ("entered", "a") in [(one["what"], one["node"]) for one in history]
    assert celeriac("instances", "list", "--status", "OPEN", "--json").json["instances"] == []


def test_everything_that_is_wrong_with_a_model_is_told(celeriac: Celeriac, file: Path) -> None:
    file.write_bytes(BROKEN)
    refused = celeriac("deploy", str(file))
    assert refused.code == 1
    assert "order.bpmn:2: error: a: " in refused.out
    assert "order.bpmn:3: error: c: " in refused.out
    told = celeriac("deploy", str(file), "--json").json["findings"]
    assert len(told) == len(refused.out.splitlines())


def test_what_is_not_there_is_said_so(celeriac: Celeriac, file: Path) -> None:
    nobody = "0198aaaa-0000-7000-8000-000000000000"
    for command in (
        ("start", "p"),
        ("deploy", str(file.with_name("none.bpmn"))),
        ("instances", "show", nobody),
        ("instances", "history", nobody),
        ("instances", "suspend", nobody),
        ("instances", "cancel", nobody, "--yes"),
    ):
        outcome = celeriac(*command)
        assert (outcome.code, outcome.out) == (1, ""), command


def test_incidents_of_instances_are_listed_and_retried(celeriac: Celeriac, file: Path, conn: Connection) -> None:
    celeriac("deploy", str(file))
    instance = celeriac("start", "p").out.strip()
    (held,) = call.rows(conn, "fetch_tasks", worker_id="w", task_types=["a"], max_tasks=1)
    call.one(conn, "fail_task", task_id=held.task_id, worker_id="w", error="broken", retries=0)
    celeriac("instances", "resume", instance)
    (incident,) = celeriac("incidents", "list", "--instance-id", instance, "--json").json["incidents"]
    assert (incident["kind"], incident["name"], incident["task_type"]) == ("failed", "a", "a")
    assert instance in celeriac("instances", "list", "--with-incident").out
    resolved = celeriac("incidents", "resolve", incident["incident_id"], "retry", "--note", "mended")
    assert f"instance {instance} goes on" in resolved.err
    assert celeriac("tasks", "show", str(held.task_id), "--json").json["state"] == "READY"
    shown = celeriac("incidents", "show", incident["incident_id"], "--json").json
    assert (shown["note"], shown["state"]) == ("mended", "RESOLVED")


def test_a_user_task_is_completed_by_its_token(celeriac: Celeriac, file: Path) -> None:
    body = '<startEvent id="s"/><userTask id="u"/><endEvent id="e"/>' + flow("s", "u", "e")
    file.write_bytes(model(body))
    celeriac("deploy", str(file))
    instance = celeriac("start", "p").out.strip()
    token = celeriac("instances", "show", instance, "--json").json["tokens"][0]["token_id"]
    done = celeriac("instances", "complete", instance, token, "--variables", '{"ok": true}', "--json").json
    assert done["status"] == "COMPLETED"


def test_messages_and_signals_reach_who_waits_and_start_who_does_not(celeriac: Celeriac, file: Path) -> None:
    nodes = (
        '<startEvent id="s"/><receiveTask id="r" messageRef="M"/><intermediateCatchEvent id="c">'
        '<signalEventDefinition signalRef="S"/></intermediateCatchEvent><endEvent id="e"/>'
        '<startEvent id="n"><messageEventDefinition messageRef="N"/></startEvent>'
    )
    roots = '<message id="M" name="paid"/><message id="N" name="new"/><signal id="S" name="all clear"/>'
    file.write_bytes(model(nodes + flow("s", "r", "c", "e") + flow("n", "r"), roots))
    celeriac("deploy", str(file))
    (definition,) = celeriac("definitions", "list", "--key", "p", "--json").json["definitions"]
    assert (definition["version"], definition["resource"]) == (1, "order.bpmn")
    assert "p" in celeriac("definitions", "list").out
    assert celeriac("definitions", "list", "--key", "q", "--json").json["definitions"] == []
    instance = celeriac("start", "p", "--business-key", "B-1", "--variables", '{"order": 7}').out.strip()
    nobody = celeriac("messages", "send", "paid", "--business-key", "B-2")
    assert (nobody.code, "nothing waits" in nobody.err) == (1, True)
    assert celeriac("messages", "send", "paid", "--correlation", "[]").code != 0
    sent = celeriac(
        "messages", "send", "paid", "--correlation", '{"order": 7}', "--variables", '{"sum": 12}', "--json"
    ).json
    assert sent == {"reached": [{"instance_id": instance, "definition_id": None, "started": False}], "kept": False}
    assert celeriac("instances", "variables", instance, "--json").json["variables"] == {"order": 7, "sum": 12}
    assert instance in celeriac("messages", "signal", "all clear").err
    assert celeriac("instances", "show", instance, "--json").json["status"] == "COMPLETED"
    assert "nobody waits" in celeriac("messages", "signal", "all clear").err
    assert "is kept" in celeriac("messages", "send", "paid", "--ttl-ms", "60000").err
    (started,) = celeriac("messages", "send", "new", "--json").json["reached"]
    assert started["started"] is True
    assert celeriac("instances", "show", started["instance_id"], "--json").json["tokens"][0]["node"] == "c"
