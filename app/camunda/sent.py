"""What a request says, read as leniently as Camunda 7 reads it: 1 is true, "5" is five, null is the default.

Every method takes the field's name in the request, and names it when it refuses what it finds there (400).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from app.camunda.errors import invalid
from app.camunda.moments import read_moment

LARGEST_LONG: Final = 2**63 - 1


class Sent:
    """A JSON object, or the parameters of an address."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def __contains__(self, name: str) -> bool:
        return self.values.get(name) is not None

    def text(self, name: str) -> str | None:
        """A text; numbers and truth values become theirs."""
        value = self.values.get(name)
        if isinstance(value, bool):
            return str(value).lower()
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, int | float):
            return str(getattr(value, "text", value))
        raise invalid(f"{name} must be a string")

    def integer(self, name: str, default: int | None = None) -> int | None:
        """A whole number of 64 bits, also as text."""
        value = self.values.get(name)
        if value is None or value == "":
            return default
        try:
            if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
                raise ValueError
            number = int(value)
        except (TypeError, ValueError):
            raise invalid(f"{name} must be a whole number") from None
        if abs(number) > LARGEST_LONG:
            raise invalid(f"{name} must be a whole number of 64 bits")
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
            return [part.strip() for part in value.split(",") if part.strip()]
        if not isinstance(value, list):
            raise invalid(f"{name} must be a list")
        return [text for text in (Sent({name: part}).text(name) for part in value) if text is not None]

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
        """A list of objects; absent is empty."""
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


def uuid_of(text: str | None) -> str | None:
    """The text when it is a UUID, in lower case; None when it cannot be the id of anything of ours."""
    try:
        return None if text is None or len(text) != 36 else str(UUID(text))
    except ValueError:
        return None
