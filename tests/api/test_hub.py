"""The hub alone: whom a hint wakes, what is promised to whom, and that it outlives a lost database."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest

from app.api.hub import Hub, Place
from db.errors import Unavailable


class Ready:
    """Counts of ready work as the database would give them; remembers who asked."""

    def __init__(self, **counts: int) -> None:
        self.counts = counts
        self.asked: list[Sequence[str]] = []
        self.lost = False

    async def __call__(self, task_types: Sequence[str]) -> Mapping[str, int]:
        self.asked.append(task_types)
        if self.lost:
            raise Unavailable("gone")
        return {name: self.counts[name] for name in task_types if self.counts.get(name)}


@asynccontextmanager
async def running(hub: Hub) -> AsyncIterator[None]:
    work = asyncio.create_task(hub.run())
    yield
    work.cancel()
    await asyncio.wait([work])


def enter(hub: Hub, *types: str, room: int = 1, kind: str = "any", picky: bool = False) -> Place:
    place = Place(types or ("mail",), room, kind, picky)
    assert hub.enter(place)
    return place


async def woken_of(places: list[Place]) -> list[int]:
    """Which of them wake, by their place in line."""
    woken = await asyncio.gather(*(place.woken(0.05) for place in places))
    return [index for index, wakes in enumerate(woken) if wakes]


async def test_as_many_are_woken_as_there_is_work_oldest_first() -> None:
    hub = Hub(Ready(mail=2))
    places = [enter(hub) for _ in range(5)]
    async with running(hub):
        assert await woken_of(places) == [0, 1]


async def test_a_place_with_room_for_many_counts_for_many() -> None:
    hub = Hub(Ready(mail=10))
    places = [enter(hub, room=4) for _ in range(5)]
    async with running(hub):
        assert await woken_of(places) == [0, 1, 2]


async def test_a_second_hint_for_the_same_work_wakes_nobody_until_the_claim_is_settled() -> None:
    ready = Ready(mail=1)
    hub = Hub(ready)
    places = [enter(hub) for _ in range(3)]
    async with running(hub):
        assert await woken_of(places) == [0]
        hub.hint(["mail"])
        assert await woken_of(places) == []
        hub.settle(places[0], 1)
        hub.leave(places[0])
        hub.hint(["mail"])
        assert await woken_of(places[1:]) == [0]


async def test_what_was_promised_to_a_place_that_leaves_goes_to_the_next() -> None:
    hub = Hub(Ready(mail=1))
    places = [enter(hub) for _ in range(2)]
    async with running(hub):
        assert await woken_of(places) == [0]
        hub.leave(places[0])
        assert await woken_of(places[1:]) == [0]


async def test_a_kind_that_found_nothing_is_passed_over_until_the_next_hint() -> None:
    hub = Hub(Ready(mail=1))
    old = [enter(hub, kind="v1", picky=True) for _ in range(3)]
    new = enter(hub, kind="v2", picky=True)
    async with running(hub):
        assert await woken_of([*old, new]) == [0]
        hub.settle(old[0], 0)
        assert await woken_of([*old, new]) == [3]
        hub.settle(new, 0)
        assert await woken_of([*old, new]) == []
        hub.hint(["mail"])
        assert await woken_of([*old, new]) == [0]


async def test_nobody_waiting_and_foreign_hints_cost_no_question() -> None:
    ready = Ready(mail=1)
    hub = Hub(ready)
    async with running(hub):
        hub.hint(["mail"])
        await asyncio.sleep(0.05)
        assert ready.asked == []
        enter(hub, "post")
        hub.hint(["mail"])
        await asyncio.sleep(0.05)
    assert all("mail" not in asked for asked in ready.asked)


async def test_one_question_covers_all_awaited_types() -> None:
    ready = Ready()
    hub = Hub(ready)
    for name in ("a", "b", "c"):
        enter(hub, name)
        enter(hub, name, "d")
    async with running(hub):
        await asyncio.sleep(0.05)
    assert [sorted(asked) for asked in ready.asked] == [["a", "b", "c", "d"]]


async def test_a_lost_database_is_waited_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.api.hub.TICK_SECONDS", 0.05)
    ready = Ready(mail=1)
    ready.lost = True
    hub = Hub(ready)
    place = enter(hub)
    async with running(hub):
        assert await woken_of([place]) == []
        ready.lost = False
        assert await place.woken(5)


async def test_a_full_house_takes_nobody_and_a_leaver_makes_room() -> None:
    hub = Hub(Ready(), most_waiting=2)
    places = [enter(hub) for _ in range(2)]
    assert not hub.enter(Place(("mail",), 1, "any", picky=False))
    hub.leave(places[0])
    enter(hub)
    assert hub.waiting == 2


async def test_a_party_has_a_limit_of_its_own() -> None:
    hub = Hub(Ready(), most_of={"guests": 1})
    guest, other = (Place(("mail",), 1, "any", False, "guests") for _ in range(2))
    assert hub.enter(guest)
    assert not hub.enter(other)
    enter(hub)
    hub.leave(guest)
    hub.leave(guest)
    assert hub.enter(other)
    assert not hub.enter(guest)


async def test_closing_wakes_everybody() -> None:
    hub = Hub(Ready())
    places = [enter(hub) for _ in range(3)]
    hub.close()
    assert await woken_of(places) == [0, 1, 2]
