"""A trip is a flight, a hotel and a car: all of them, or none.

Each office is somebody else's, so no transaction spans them. What can be undone says how, and that is on record before
the step begins: whatever happens then, on whatever worker, the booked ones are cancelled, the newest first.
"""

from dataclasses import dataclass

from celeriac import Context, Fatal, RetryPolicy, task
from offices import Booking, NoneLeft, cancel, reserve


@dataclass(frozen=True)
class Trip:
    """What a traveller wants."""

    traveller: str
    city: str


@dataclass(frozen=True)
class Booked:
    """The numbers that the offices gave."""

    flight: str
    hotel: str
    car: str


def book_flight(trip: Trip) -> Booking:
    return reserve("flights", trip.traveller, trip.city)


def book_hotel(trip: Trip) -> Booking:
    return reserve("hotels", trip.traveller, trip.city)


def book_car(trip: Trip) -> Booking:
    try:
        return reserve("cars", trip.traveller, trip.city)
    except NoneLeft as none_left:
        # Trying again cannot help: the task fails for good, and what was booked is undone.
        raise Fatal(str(none_left)) from none_left


def cancel_flight(trip: Trip) -> None:
    cancel("flights", trip.traveller)


def cancel_hotel(trip: Trip) -> None:
    cancel("hotels", trip.traveller)


def cancel_car(trip: Trip) -> None:
    cancel("cars", trip.traveller)


@task("trips.book", lease=5, retry=RetryPolicy(attempts=3, first=1))
def book(ctx: Context, trip: Trip) -> Booked:
    flight = ctx.step("flight", book_flight, trip, compensate=cancel_flight)
    hotel = ctx.step("hotel", book_hotel, trip, compensate=cancel_hotel)
    car = ctx.step("car", book_car, trip, compensate=cancel_car)
    return Booked(flight.number, hotel.number, car.number)
