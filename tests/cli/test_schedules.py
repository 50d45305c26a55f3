"""`celeriac schedules`: put, list, show, pause, resume, delete."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import Connection, text

from tests.cli.conftest import Celeriac
from tests.clock import Clock

NIGHTLY = ["schedules", "put", "nightly", "--task-type", "mail", "--cron", "30 2 * * *", "--time-zone", "Europe/Berlin"]


def set_to(clock: Clock, moment: str) -> None:
    clock.freeze()
    clock.advance((datetime.fromisoformat(moment).replace(tzinfo=UTC) - clock.now()).total_seconds())


def test_a_schedule_is_put_shown_and_listed(celeriac: Celeriac, clock: Clock) -> None:
    set_to(clock, "2030-03-30T12:00:00")
    options = ["--variables", '{"price": 1.10}', "--catch-up", "all", "--slot-variable", "due", "--priority", "3"]
    made = celeriac(*NIGHTLY, *options, "--json").json
    assert (made["next_at"], made["catch_up"]) == ("2030-03-31T01:00:00Z", "all")
    assert made["task"] == {"task_type": "mail", "priority": 3, "variables": {"price": 1.10}}
    assert celeriac("schedules", "show", "nightly", "--json").json == made
    assert celeriac("schedules", "list", "--json").json["schedules"] == [made]
    shown = celeriac("schedules", "show", "nightly").out
    assert "30 2 * * *" in shown
    assert shown.splitlines()[-5:] == [f"2030-{day}" for day in (
        "03-31T01:00:00+00:00", "04-01T00:30:00+00:00", "04-02T00:30:00+00:00", "04-03T00:30:00+00:00",
        "04-04T00:30:00+00:00",
    )]  # fmt: skip
    assert "nightly" in celeriac("schedules", "list").out


def test_variables_keep_their_digits(celeriac: Celeriac, conn: Connection) -> None:
    celeriac(*NIGHTLY, "--variables", '{"big": 100000000000000000000.10}')
    stored = conn.execute(text("select task #>> '{variables,big}' from celeriac.schedules")).scalar_one()
    assert stored == "100000000000000000000.10"


def test_a_period_counts_from_its_anchor_which_is_utc_without_a_zone(celeriac: Celeriac, clock: Clock) -> None:
    set_to(clock, "2031-02-15T00:00:00")
    every = ["schedules", "put", "monthly", "--task-type", "mail", "--every", "P1M", "--anchor-at"]
    assert celeriac(*every, "2031-01-31T10:00:00", "--json").json["next_at"] == "2031-02-28T10:00:00Z"
    assert celeriac(*every, "2031-01-31T10:00:00+05:30", "--json").json["next_at"] == "2031-02-28T04:30:00Z"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (["--cron", "0 0 30 2 *"], "cron"),
        (["--cron", "x"], "cron"),
        ([], "cron"),
        (["--cron", "@daily", "--every", "P1D"], "cron"),
        (["--every", "P1.5M"], "every"),
        (["--cron", "@daily", "--time-zone", "Nowhere/At_all"], "time_zone"),
        (["--cron", "@daily", "--variables", "[]"], "task.variables"),
        (["--cron", "@daily", "--retries", "0"], "task.retries"),
    ],
)
def test_what_could_never_fire_is_refused_with_its_field(celeriac: Celeriac, options: list[str], field: str) -> None:
    refused = celeriac("schedules", "put", "nightly", "--task-type", "mail", *options)
    assert (refused.code, field in refused.err) == (1, True), refused.err
    assert celeriac("schedules", "list", "--json").json["schedules"] == []


def test_variables_that_are_not_json_are_wrong_usage(celeriac: Celeriac) -> None:
    assert celeriac(*NIGHTLY, "--variables", "{").code == 2


def test_a_schedule_is_paused_resumed_and_deleted(celeriac: Celeriac) -> None:
    made = celeriac(*NIGHTLY, "--json").json
    assert celeriac("schedules", "pause", "nightly", "--json").json["next_at"] is None
    assert "yes" in celeriac("schedules", "list").out
    assert celeriac("schedules", "show", "nightly").code == 0
    assert celeriac("schedules", "resume", "nightly", "--json").json["next_at"] == made["next_at"]
    assert celeriac("schedules", "delete", "nightly").code == 2  # nobody is there to ask
    assert celeriac("schedules", "delete", "nightly", "--yes", "--json").json == {"name": "nightly"}
    for verb in ("show", "pause", "resume"):
        missing = celeriac("schedules", verb, "nightly")
        assert (missing.code, "no such schedule" in missing.err) == (1, True)
    assert celeriac("schedules", "delete", "nightly", "--yes").code == 1


def test_a_schedule_that_stands_still_says_why_and_can_be_resumed_only_when_it_can_be_read(
    celeriac: Celeriac, conn: Connection
) -> None:
    celeriac(*NIGHTLY)
    conn.execute(text("update celeriac.schedule set next_at = null, error = 'no zone', time_zone = 'No/Where'"))
    assert "no zone" in celeriac("schedules", "list").out
    assert "time_zone" in celeriac("schedules", "resume", "nightly").err


def test_lists_come_in_pages_and_by_task_type(celeriac: Celeriac) -> None:
    for name in ("c", "a", "b"):
        celeriac("schedules", "put", name, "--task-type", f"type-{name}", "--cron", "@daily")
    assert "more: --cursor b" in celeriac("schedules", "list", "--limit", "2").err
    first = celeriac("schedules", "list", "--limit", "2", "--json").json
    assert ([one["name"] for one in first["schedules"]], first["next_cursor"]) == (["a", "b"], "b")
    rest = celeriac("schedules", "list", "--limit", "2", "--cursor", "b", "--json").json
    assert ([one["name"] for one in rest["schedules"]], rest["next_cursor"]) == (["c"], None)
    assert len(celeriac("schedules", "list", "--task-type", "type-a", "--json").json["schedules"]) == 1


def test_a_name_with_control_characters_is_refused_and_never_printed(celeriac: Celeriac) -> None:
    refused = celeriac("schedules", "put", "a\x1b[31m", "--task-type", "mail", "--cron", "@daily")
    assert (refused.code, "\x1b" in refused.err) == (1, False)
