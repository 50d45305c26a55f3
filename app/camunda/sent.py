"""What a request says, read as leniently as Camunda 7 reads it: 1 is true, "5" is five, null is the default.

Every method takes the field's name in the request, and names it when it refuses what it finds there (400).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Sized
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from app.camunda.errors import invalid
from app.camunda.moments import read_moment

LARGEST_LONG: Final = 2**63 - 1
LONGEST_NAME: Final = 255
MOST_OBJECTS: Final = 200
"""Entries of a list of objects: topics, sortings, comparisons."""


class Sent:
    """A JSON object, or the parameters of an address."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def __contains__(self, name: str) -> bool:
        return self.values.get(name) is not None

    def text(self, name: str, most: int | None = None) -> str | None:
        """A text; numbers and truth values become theirs. `most`: how many characters it may have."""
        value = self.values.get(name)
        if isinstance(value, bool):
            value = str(value).lower()
        elif isinstance(value, int | float):
            value = str(getattr(value, "text", value))
        if not (value is None or isinstance(value, str)):
            raise invalid(f"{name} must be a string")
        if value is not None and most is not None and len(value) > most:
            raise invalid(f"{name} must have at most {most} characters")
        return value

    def name(self, name: str) -> str | None:
        """A text that can be what something is called here; SQL's is_name has the last word."""
        given = self.text(name)
        if given is None or (1 <= len(given) <= LONGEST_NAME and given.isprintable() and given == given.strip(" ")):
            return given
        raise invalid(f"{name} must be 1 to {LONGEST_NAME} printable characters without surrounding space")

    def integer(self, name: str, default: int | None = None, most: int = LARGEST_LONG) -> int | None:
        """A whole number, also as text; `most`: how far from 0 it may be."""
        value = self.values.get(name)
        if value is None or value == "":
            return default
        try:
            if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
                raise ValueError
            number = int(value)
        except (TypeError, ValueError):
            raise invalid(f"{name} must be a whole number") from None
        if abs(number) > most:
            raise invalid(f"{name} must be a whole number of at most {most}")
        return number

    def boolean(self, name: str) -> bool:
        """A truth value; absent is false."""
        value = self.values.get(name)
        if isinstance(value, str):
            return value.strip().lower() == "true"
        if value is None or isinstance(value, int):
            return bool(value)
        raise invalid(f"{name} must be true or false")

    def names(self, name: str) -> list[str] | None:
        """A list of texts; in an address, and where a text stands for it, separated by commas. None when absent."""
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, str):
            return self.parts(name)
        if not isinstance(value, list):
            raise invalid(f"{name} must be a list")
        return [text for text in (Sent({name: part}).text(name) for part in value) if text is not None]

    def parts(self, name: str) -> list[str]:
        """What commas separate in a text; absent is empty."""
        return [part.strip() for part in (self.text(name) or "").split(",") if part.strip()]

    def moment(self, name: str) -> datetime | None:
        """A date and time, see moments.py."""
        text = self.text(name)
        return None if text is None else read_moment(text, name)

    def sent(self, name: str) -> Sent:
        """An object inside; absent is empty."""
        return Sent(self.mapping(name))

    def mapping(self, name: str) -> Mapping[str, Any]:
        """An object inside as it is; absent is empty."""
        value = self.values.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise invalid(f"{name} must be an object")
        return value

    def list_of_sent(self, name: str) -> Sequence[Sent]:
        """A list of objects, of which each makes work; absent is empty."""
        value = self.values.get(name)
        if isinstance(value, list):
            demand_few(name, value)
        return list(self._objects(name))

    def _objects(self, name: str) -> Iterator[Sent]:
        value = self.values.get(name)
        if value is None:
            return
        if not isinstance(value, list):
            raise invalid(f"{name} must be a list")
        for part in value:
            if not isinstance(part, dict):
                raise invalid(f"{name} must be a list of objects")
            yield Sent(part)


def demand_few(name: str, entries: Sized, most: int = MOST_OBJECTS) -> None:
    """400 when there are more than are looked at."""
    if len(entries) > most:
        raise invalid(f"{name} must have at most {most} entries")


def uuid_of(text: str | None) -> str | None:
    """The text when it is a UUID, in lower case; None when it cannot be the id of anything of ours."""
    try:
        return None if text is None or len(text) != 36 else str(UUID(text))
    except ValueError:
        return None
