"""The offices of other firms, as far as this example needs them: a folder each, a file a booking.

They know a traveller who asks twice, as any office should: a step that was cut off is done again.
"""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Booking:
    """What an office says."""

    number: str


class NoneLeft(Exception):
    """The office has nothing left in this city."""


def reserve(office: str, traveller: str, city: str) -> Booking:
    """Book something; the same traveller again gets what they have."""
    if (folder(office) / f"none left in {city}").exists():
        raise NoneLeft(f"no {office} left in {city}")
    (folder(office) / traveller).write_text(city)
    return Booking(f"{office}/{traveller}")


def cancel(office: str, traveller: str) -> None:
    """Take a booking back; one that is not there is fine."""
    (folder(office) / traveller).unlink(missing_ok=True)


def booked(traveller: str) -> list[str]:
    """The offices where this traveller has something."""
    return [office for office in ("flights", "hotels", "cars") if (folder(office) / traveller).exists()]


def folder(office: str) -> Path:
    path = Path(os.environ["OFFICES"]) / office
    path.mkdir(parents=True, exist_ok=True)
    return path
