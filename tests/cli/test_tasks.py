"""`celeriac tasks`: what it shows is what the database holds, what it changes goes through the functions."""

import pytest
from sqlalchemy import Connection

from db import call
from tests.cli.conftest import Celeriac, Enqueue, fail_for_good, fetch

NOBODYS_TASK = "0198aaaa-0000-7000-8000-000000000000"


def test_a_list_has_the_newest_task_first(celeriac: Celeriac, enqueue: Enqueue) -> None:
    older, newer = enqueue(), enqueue()
    listed = celeriac("tasks", "list", "--json")
    assert listed.code == 0
    assert [task["task_id"] for task in listed.json["tasks"]] == [newer, older]
    assert listed.json["next_cursor"] is None


def test_a_list_is_read_page_by_page(celeriac: Celeriac, enqueue: Enqueue) -> None:
    expected = [enqueue() for _ in range(5)]
    seen: list[str] = []
    cursor: list[str] = []
    while True:
        page = celeriac("tasks", "list", "--sort", "created_at", "--limit", "2", *cursor, "--json").json
        seen += [task["task_id"] for task in page["tasks"]]
        if page["next_cursor"] is None:
            break
        cursor = ["--cursor", page["next_cursor"]]
    assert seen == expected


def test_filters_leave_out_what_does_not_match(celeriac: Celeriac, enqueue: Enqueue) -> None:
    wanted = enqueue("mail", business_key="order 7", idempotency_key="k1")
    enqueue("mail")
    enqueue("print")
    for filters in (["--business-key", "order 7"], ["--idempotency-key", "k1", "--task-type", "mail"]):
        assert [task["task_id"] for task in celeriac("tasks", "list", *filters, "--json").json["tasks"]] == [wanted]
    assert celeriac("tasks", "list", "--state", "locked", "--json").json["tasks"] == []


def test_an_empty_list_says_so_and_leaves_stdout_empty(celeriac: Celeriac) -> None:
    listed = celeriac("tasks", "list")
    assert (listed.code, listed.out) == (0, "")
    assert "no task" in listed.err


def test_a_table_shows_terminal_escapes_and_markup_as_text(
    celeriac: Celeriac, enqueue: Enqueue, conn: Connection
) -> None:
    enqueue()
    fail_for_good(conn, error="\x1b[2J[red]gone[/red]\nsecond line")
    shown = celeriac("tasks", "list").out
    assert "\x1b" not in shown
    assert "[red]gone[/red]" in shown
    assert len(shown.splitlines()) == 2


def test_one_task_is_shown_with_attempts_and_timeline(celeriac: Celeriac, enqueue: Enqueue, conn: Connection) -> None:
    task_id = enqueue(variables={"to": "ada", "pages": 12345678901234567890})
    fail_for_good(conn)
    task = celeriac("tasks", "show", task_id, "--json").json
    assert (task["task_id"], task["state"]) == (task_id, "FAILED")
    assert task["variables"] == {"to": "ada", "pages": 12345678901234567890}
    assert [attempt["outcome"] for attempt in task["attempts"]] == ["failed"]
    assert [entry["kind"] for entry in task["timeline"]] == ["failed"]
    text = celeriac("tasks", "show", task_id).out
    assert "no such mailbox" in text
    assert "ada" in text


def test_a_task_that_is_not_there_is_exit_code_1(celeriac: Celeriac) -> None:
    for verb in ("show", "cancel", "redrive"):
        refused = celeriac("tasks", verb, NOBODYS_TASK)
        assert refused.code == 1
        assert refused.out == ""
        assert refused.err.count("\n") == 1


def test_cancel_ends_an_open_task_and_keeps_the_reason(celeriac: Celeriac, enqueue: Enqueue) -> None:
    task_id = enqueue()
    canceled = celeriac("tasks", "cancel", task_id, "--reason", "ordered by mistake", "--json")
    assert canceled.json == {"tasks": [{"task_id": task_id, "state": "CANCELED"}]}
    assert "ordered by mistake" in celeriac("tasks", "show", task_id).out


def test_cancel_of_an_ended_task_is_refused(celeriac: Celeriac, enqueue: Enqueue, conn: Connection) -> None:
    task_id = enqueue()
    fail_for_good(conn)
    refused = celeriac("tasks", "cancel", task_id)
    assert refused.code == 1
    assert "already_ended" in refused.err


def test_canceling_many_asks_first(celeriac: Celeriac, enqueue: Enqueue) -> None:
    task_ids = [enqueue(), enqueue()]
    asked = celeriac("tasks", "cancel", *task_ids)
    assert asked.code == 2
    assert "--yes" in asked.err
    assert celeriac("tasks", "list", "--state", "canceled", "--json").json["tasks"] == []
    assert celeriac("tasks", "cancel", *task_ids, "--yes").code == 0


def test_one_refusal_among_many_does_not_stop_the_others(celeriac: Celeriac, enqueue: Enqueue) -> None:
    first, last = enqueue(), enqueue()
    outcome = celeriac("tasks", "cancel", first, NOBODYS_TASK, last, "--yes", "--json")
    assert outcome.code == 1
    assert [task["task_id"] for task in outcome.json["tasks"]] == [first, last]
    assert NOBODYS_TASK in outcome.err
    assert outcome.err.count("\n") == 1


def test_redrive_gives_a_failed_task_its_retries_back(celeriac: Celeriac, enqueue: Enqueue, conn: Connection) -> None:
    task_id = enqueue()
    fail_for_good(conn)
    assert celeriac("tasks", "redrive", task_id, "--retries", "7", "--json").json["tasks"][0]["state"] == "READY"
    assert fetch(conn).retries == 7


def test_redrive_of_a_task_that_did_not_fail_is_refused(celeriac: Celeriac, enqueue: Enqueue) -> None:
    assert celeriac("tasks", "redrive", enqueue()).code == 1


def test_redrive_all_takes_only_the_type_that_is_named(celeriac: Celeriac, enqueue: Enqueue, conn: Connection) -> None:
    mail, other = enqueue("mail"), enqueue("print")
    fail_for_good(conn, "mail")
    fail_for_good(conn, "print")
    redriven = celeriac("tasks", "redrive", "--all", "--task-type", "mail", "--yes", "--json")
    assert redriven.json == {"task_ids": [mail]}
    assert call.one(conn, "cancel_task", task_id=mail).state == "CANCELED"
    assert celeriac("tasks", "show", other, "--json").json["state"] == "FAILED"


def test_redrive_all_obeys_times_and_the_limit(celeriac: Celeriac, enqueue: Enqueue, conn: Connection) -> None:
    for _ in range(3):
        enqueue()
        fail_for_good(conn)
    nothing = celeriac("tasks", "redrive", "--all", "--failed-before", "2001-01-01", "--yes", "--json")
    assert nothing.json == {"task_ids": []}
    nothing = celeriac("tasks", "redrive", "--all", "--failed-after", "2999-01-01T00:00:00+02:00", "--yes", "--json")
    assert nothing.json == {"task_ids": []}
    assert len(celeriac("tasks", "redrive", "--all", "--max-tasks", "2", "--yes", "--json").json["task_ids"]) == 2


def test_redrive_all_asks_first(celeriac: Celeriac, enqueue: Enqueue, conn: Connection) -> None:
    task_id = enqueue()
    fail_for_good(conn)
    assert celeriac("tasks", "redrive", "--all").code == 2
    assert celeriac("tasks", "show", task_id, "--json").json["state"] == "FAILED"


@pytest.mark.parametrize(
    "arguments",
    [
        ["redrive"],
        ["redrive", NOBODYS_TASK, "--all"],
        ["redrive", NOBODYS_TASK, "--task-type", "mail"],
        ["redrive", "--all", "--retries", "3", "--yes"],
        ["redrive", "--all", "--failed-after", "yesterday"],
        ["show", "seven"],
        ["list", "--state", "sleeping"],
        ["list", "--limit", "0"],
        ["list", "--cursor", "abc"],
        ["list", "--no-such-option"],
    ],
)
def test_wrong_usage_is_exit_code_2_and_one_reason(celeriac: Celeriac, arguments: list[str]) -> None:
    refused = celeriac("tasks", *arguments)
    assert refused.code == 2
    assert refused.out == ""
    assert "Traceback" not in refused.err
