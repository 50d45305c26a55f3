"""A trip that is booked as a whole, or not at all, wherever its worker dies."""

from pathlib import Path
from types import ModuleType

import pytest

from celeriac.testing import RunnerMaker, every_crash
from tests.examples import programs

NAME = "saga"


@pytest.fixture
def trip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    monkeypatch.setenv("OFFICES", str(tmp_path))
    return programs.module(NAME, "trip", monkeypatch)


@pytest.fixture
def offices(trip: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    import offices  # type: ignore[import-not-found]

    assert isinstance(offices, ModuleType)
    return offices


def test_a_trip_is_booked_as_a_whole(trip: ModuleType, offices: ModuleType, celeriac_runner: RunnerMaker) -> None:
    runner = celeriac_runner(trip.book)
    task_id = runner.enqueue(trip.book, trip.Trip("Ida", "Bergen"))
    runner.run()
    assert runner.result(task_id) == {"flight": "flights/Ida", "hotel": "hotels/Ida", "car": "cars/Ida"}
    assert offices.booked("Ida") == ["flights", "hotels", "cars"]


def test_without_a_car_nothing_is_booked_wherever_the_worker_dies(
    trip: ModuleType, offices: ModuleType, celeriac_runner: RunnerMaker
) -> None:
    runner = celeriac_runner(trip.book)
    (offices.folder("cars") / "none left in Lyon").touch()
    crashes = 0
    for crash in every_crash():
        task_id = runner.enqueue(trip.book, trip.Trip("Jo", "Lyon"))
        with crash:
            runner.run(skip=True)
        runner.run(skip=True)
        assert runner.task(task_id).state == "FAILED", crash
        assert offices.booked("Jo") == [], crash
        crashes += crash.happened
    assert crashes > 10


def test_its_command_books_one_trip_and_undoes_the_other() -> None:
    said = programs.run(NAME)
    assert "booked now: flights, hotels, cars" in said
    assert "booked now: nothing" in said
