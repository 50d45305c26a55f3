"""Signals, steps and decisions on the command line."""

import pytest
from sqlalchemy import Connection

from tests.cli.conftest import Celeriac
from tests.held_task import fetch_held, new_held

NOBODY = "0198aaaa-0000-7000-8000-000000000000"


def state(celeriac: Celeriac, task_id: object) -> str:
    return str(celeriac("tasks", "show", str(task_id), "--json").json["state"])


def test_a_signal_wakes_who_waits_and_is_kept_when_nobody_does(celeriac: Celeriac, conn: Connection) -> None:
    task = new_held(conn)
    task.wait_for("paid", "order-7")
    kept = celeriac("signals", "send", "paid")
    assert (kept.code, kept.out) == (0, "")
    assert "order-7" in celeriac("tasks", "show", str(task.task_id)).out
    assert "is kept" in kept.err
    sent = celeriac("signals", "send", "paid", "--key", "order-7", "--payload", '{"n": 1}', "--json").json
    assert (sent["created"], sent["delivered"], state(celeriac, task.task_id)) == (True, 1, "READY")
    assert celeriac("tasks", "steps", str(task.task_id), "--json").json["steps"][0]["result"]["payload"] == {"n": 1}


def test_a_signal_can_be_a_broadcast_and_is_sent_once_by_its_id(celeriac: Celeriac, conn: Connection) -> None:
    for _ in range(2):
        new_held(conn).wait_for("open")
    command = ("signals", "send", "open", "--broadcast", "--dedupe-id", "event-1", "--ttl-ms", "60000")
    assert "woke 2 tasks" in celeriac(*command).err
    assert "was sent before" in celeriac(*command).err
    other = celeriac(*command, "--payload", "1")
    assert (other.code, other.out) == (1, "")
    assert "idempotency_conflict" in other.err


def test_signals_that_nobody_has_taken_are_listed(celeriac: Celeriac, conn: Connection) -> None:
    new_held(conn).wait_for("paid")
    for topic, key in (("paid", "a"), ("paid", "b"), ("open", "a")):
        celeriac("signals", "send", topic, "--key", key, "--payload", '{"n": 12345678901234567890}')
    taken = celeriac("signals", "send", "paid", "--json").json["signal_id"]
    celeriac("signals", "send", "gone", "--ttl-ms", "0")

    def listed(*options: str) -> list[tuple[str, str]]:
        found = celeriac("signals", "list", *options, "--json").json["signals"]
        return [(signal["topic"], signal["key"]) for signal in found]

    assert listed() == [("open", "a"), ("paid", "b"), ("paid", "a")]
    assert listed("--topic", "paid", "--key", "a") == [("paid", "a")]
    assert listed("--topic", "p%") == []
    assert len(listed("--all")) == 5
    page = celeriac("signals", "list", "--limit", "2", "--json").json
    assert listed("--cursor", page["next_cursor"]) == [("paid", "a")]
    assert "12345678901234567890" in celeriac("signals", "list").out
    assert taken in celeriac("signals", "list", "--all").out
    assert "no signal" in celeriac("signals", "list", "--topic", "nobody").err


@pytest.mark.parametrize("payload", ["{", "NaN", "", "{'a': 1}", pytest.param("[" * 100_000, id="deep")])
def test_a_payload_that_is_no_json_is_wrong_usage(celeriac: Celeriac, payload: str) -> None:
    refused = celeriac("signals", "send", "paid", "--payload", payload)
    assert (refused.code, refused.out) == (2, "")
    assert "--payload" in refused.err


def test_steps_are_listed_page_by_page_in_the_order_of_the_code(celeriac: Celeriac, conn: Connection) -> None:
    task = new_held(conn)
    for ordinal in (1, 2, 10):
        task.record(ordinal, f"step {ordinal}", {"n": 12345678901234567890})
    task.record(1, "inside", branch="3.0")
    seen, cursor = [], list[str]()
    while True:
        page = celeriac("tasks", "steps", str(task.task_id), "--limit", "2", *cursor, "--json").json
        seen += [(step["branch"], step["ordinal"]) for step in page["steps"]]
        if page["next_cursor"] is None:
            break
        cursor = ["--cursor", page["next_cursor"]]
    assert seen == [("", 1), ("", 2), ("", 10), ("3.0", 1)]
    assert "12345678901234567890" in celeriac("tasks", "steps", str(task.task_id)).out
    assert celeriac("tasks", "steps", NOBODY).code == 1
    assert celeriac("tasks", "steps", str(task.task_id), "--cursor", "x").code == 2
    assert "no step" in celeriac("tasks", "steps", str(new_held(conn).task_id)).err


def test_an_incident_is_listed_until_it_is_resolved(celeriac: Celeriac, conn: Connection) -> None:
    task = new_held(conn)
    incident_id = str(task.meet_other_code())
    (listed,) = celeriac("incidents", "list", "--json").json["incidents"]
    assert (listed["incident_id"], listed["kind"]) == (incident_id, "other_code")
    shown = celeriac("incidents", "show", incident_id, "--json").json
    assert shown == listed | {"detail": {"expected": "charge", "found": "refund"}}
    assert "refund" in celeriac("incidents", "show", incident_id).out
    assert "found refund" in celeriac("incidents", "list").out
    wrong = celeriac("incidents", "resolve", incident_id, "skip")
    assert (wrong.code, "resolution" in wrong.err) == (1, True)
    resolved = celeriac("incidents", "resolve", incident_id, "retry", "--note", "version 3 is out", "--json").json
    assert resolved == {
        "incident_id": incident_id,
        "task_id": str(task.task_id),
        "instance_id": None,
        "resolution": "retry",
    }
    assert state(celeriac, task.task_id) == "READY"
    assert celeriac("incidents", "list", "--json").json == {"incidents": [], "next_cursor": None}
    assert "version 3 is out" in celeriac("incidents", "list", "--state", "resolved").out
    assert celeriac("incidents", "list", "--state", "all", "--kind", "undo_failed").out == ""


def test_an_unknown_operation_is_decided_by_what_came_of_it(celeriac: Celeriac, conn: Connection) -> None:
    task = new_held(conn)
    operation_id = str(task.lose_track(1, "charge", {"amount": 7}))
    (listed,) = celeriac("operations", "list", "--state", "unknown", "--json").json["operations"]
    shown = celeriac("operations", "show", operation_id, "--json").json
    assert shown == listed | {"plan": {"amount": 7}, "result": None}
    assert '{"amount": 7}' in celeriac("operations", "show", operation_id).out
    (incident,) = celeriac("incidents", "list", "--json").json["incidents"]
    refused = celeriac("incidents", "resolve", incident["incident_id"], "retry")
    assert "resolve_operation" in refused.err
    decided = celeriac("operations", "resolve", operation_id, "done", "--result", '{"id": 12345678901234567890}')
    assert decided.code == 0
    assert "goes on" in decided.err
    (listed,) = celeriac("operations", "list", "--task-id", str(task.task_id), "--json").json["operations"]
    assert listed["state"] == "DONE"
    assert celeriac("operations", "show", operation_id, "--json").json["result"] == {"id": 12345678901234567890}
    again = celeriac("operations", "resolve", operation_id, "not_done")
    assert (again.code, "already_ended" in again.err) == (1, True)
    assert fetch_held(conn).task_id == task.task_id


@pytest.mark.parametrize(
    "arguments",
    [
        ["signals", "send"],
        ["incidents", "resolve", NOBODY],
        ["incidents", "resolve", NOBODY, "ignore"],
        ["incidents", "resolve", "seven", "retry"],
        ["incidents", "list", "--state", "sleeping"],
        ["operations", "resolve", NOBODY, "UNKNOWN"],
        ["operations", "resolve", NOBODY, "DONE", "--result", "{"],
        ["operations", "list", "--limit", "0"],
    ],
)
def test_wrong_usage_is_exit_code_2(celeriac: Celeriac, arguments: list[str]) -> None:
    refused = celeriac(*arguments)
    assert (refused.code, refused.out) == (2, "")
    assert "Traceback" not in refused.err


def test_what_is_not_there_is_exit_code_1(celeriac: Celeriac) -> None:
    for arguments in (
        ("incidents", "resolve", NOBODY, "retry"),
        ("operations", "resolve", NOBODY, "DONE"),
        ("incidents", "show", NOBODY),
        ("operations", "show", NOBODY),
    ):
        refused = celeriac(*arguments)
        assert (refused.code, refused.out, refused.err.count("\n")) == (1, "", 1)


def test_a_canceled_task_can_undo_what_it_has_done(celeriac: Celeriac, conn: Connection) -> None:
    task = new_held(conn)
    task.promise_to_undo(1, "charge")
    assert "REGISTERED" in celeriac("tasks", "show", str(task.task_id)).out
    canceled = celeriac("tasks", "cancel", str(task.task_id), "--compensate", "--reason", "sold out", "--json").json
    assert canceled == {"tasks": [{"task_id": str(task.task_id), "state": "UNDOING"}]}
    assert state(celeriac, task.task_id) == "SCHEDULED"
    plain = new_held(conn, "other")
    assert (
        celeriac("tasks", "cancel", str(plain.task_id), "--compensate", "--json").json["tasks"][0]["state"]
        == "CANCELED"
    )
