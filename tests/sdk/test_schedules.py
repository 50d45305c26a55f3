"""Schedules through both clients, on a real server."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from celeriac import AsyncClient, Client, Invalid, NotFound, Policy
from celeriac._requests import delete_schedule, pause_schedule, put_schedule, resume_schedule

ANCHOR = datetime(2031, 1, 31, 12, tzinfo=UTC)


def test_a_schedule_is_put_looked_at_paused_resumed_and_deleted(client: Client) -> None:
    made = client.put_schedule(
        "nightly report", "report", {"n": 1}, cron="30 2 * * *", time_zone="Europe/Berlin",
        catch_up="all", slot_variable="due", priority=3, policy=Policy(lease_seconds=5),
    )  # fmt: skip
    assert (made["cron"], made["catch_up"], made["slot_variable"]) == ("30 2 * * *", "all", "due")
    assert (made["task"]["variables"], made["task"]["policy"]) == ({"n": 1}, {"lease_ms": 5000})
    name = made["name"]
    assert client.get_schedule(name) == made
    assert client.pause_schedule(name)["next_at"] is None
    assert client.resume_schedule(name)["next_at"] == made["next_at"]
    client.put_schedule("weekly", "report", every="P1W")
    first = client.list_schedules(limit=1)
    rest = client.list_schedules(limit=1, cursor=first.next_cursor)
    assert [one["name"] for one in first.schedules + rest.schedules] == [name, "weekly"]
    assert client.list_schedules(task_type="other").schedules == []
    assert client.delete_schedule(name) is None
    with pytest.raises(NotFound):
        client.get_schedule(name)


@pytest.mark.parametrize(
    ("every", "sent"),
    [
        ("P1M", "P1M"),
        (90, "PT90S"),
        (1.5, "PT1.500S"),
        (timedelta(hours=2), "PT7200S"),
        (timedelta(days=31), "PT2678400S"),
    ],
)
def test_a_period_may_be_seconds_a_timedelta_or_text(client: Client, every: Any, sent: str) -> None:
    assert client.put_schedule("s", "report", every=every, anchor_at=ANCHOR)["every"] == sent


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"every": float("nan")}, "every"),
        ({"every": "P1D", "anchor_at": datetime(2031, 1, 1)}, "anchor_at"),
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"every": 0.5}, "every"),
        ({"cron": "@daily", "delay": 5}, "task.delay_ms"),
        ({}, "cron"),
    ],
)
def test_what_cannot_be_scheduled_names_its_field(client: Client, given: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        client.put_schedule("s", "report", **given)
    assert refused.value.field == field


def test_the_async_client_does_the_same(client: Client) -> None:
    async def all_of_it() -> None:
        async with AsyncClient(client.link.url, client.link.key) as other:
            await other.put_schedule("s", "report", every=60)
            await other.pause_schedule("s")
            assert (await other.resume_schedule("s"))["paused"] is False
            assert len((await other.list_schedules()).schedules) == 1
            await other.delete_schedule("s")

    asyncio.run(all_of_it())


def test_what_comes_to_the_same_when_made_twice_is_repeated() -> None:
    calls = [put_schedule("s", "t", cron="@daily"), pause_schedule("s"), resume_schedule("s")]
    assert all(call.repeatable for call in calls)
    assert not delete_schedule("s").repeatable, "the second would be told that there is none"
