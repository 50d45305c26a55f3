"""Values that know their type: what a client called a value stays with it as long as it is handed on, under any name.

The token executor and its expressions see plain values: a marked one is equal to it in every way. What is made out of
it is unmarked, numbers that JUEL reckons excepted. Booleans and null cannot be marked: of those the type is known by
the variable's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Kind:
    """What is stored beside a value. `transient`: the value is not stored at all."""

    type: str | None = None
    info: Mapping[str, Any] | None = None
    transient: bool = False

    def told(self) -> dict[str, Any]:
        """As facts and functions have it."""
        all_ = {"type": self.type, "info": self.info, "transient": self.transient}
        return {name: value for name, value in all_.items() if value}


class _Text(str):
    kind: Kind


class _Whole(int):
    kind: Kind


class _Fraction(Decimal):
    kind: Kind


class _Table(dict[str, Any]):
    kind: Kind


class _Row(list[Any]):
    kind: Kind


_MARKED = (_Text, _Whole, _Fraction, _Table, _Row)


def _mark(value: Any, kind: Kind) -> Any:
    """The same value, of this kind."""
    made: Any
    match value:
        case str():
            made = _Text(value)
        case int():
            made = _Whole(value)
        case Decimal():
            made = _Fraction(value)
        case dict():
            made = _Table(value)
        case list():
            made = _Row(value)
        case _:
            return value
    made.kind = kind
    return made


LONG: Final = Kind("Long")
DOUBLE: Final = Kind("Double")


def reckoned(value: Any) -> Any:
    """A result of JUEL: whole numbers are Longs, of whatever they were made; a fraction is a Double even if whole."""
    if type(value) is int and -(2**63) <= value < 2**63:
        return _mark(value, LONG)
    if type(value) is Decimal and value == value.to_integral_value():
        return _mark(value, DOUBLE)
    return value


class Kinds:
    """The kinds of the values of one instance, while it is advanced."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[bool | None, Kind]] = {}
        self._told: dict[str, tuple[bool | None, Kind]] = {}

    def loaded(self, variables: Mapping[str, Any], types: Mapping[str, Any] | None) -> dict[str, Any]:
        """Variables as they are stored, marked. `types`: `{name: {"type", "info"}}`."""
        return _marked(variables, types or {}, self._known)

    def told(self, variables: Mapping[str, Any], types: Mapping[str, Any] | None) -> dict[str, Any]:
        """Variables of something that has happened, marked. `types`: `{name: {"type", "info", "transient"}}`."""
        # That a value has no type is news as well.
        self._told |= {name: (value, Kind()) for name, value in variables.items() if value is None}
        return _marked(variables, types or {}, self._told)

    def of(self, name: str, value: Any) -> Kind:
        """The kind of a value that is the variable's now."""
        if isinstance(value, _MARKED):
            return value.kind
        if value is None or isinstance(value, bool):
            for noted in (self._told.get(name), self._known.get(name)):
                if noted is not None and noted[0] is value:
                    return noted[1]
        return Kind()

    def is_news(self, name: str, value: Any) -> bool:
        """Whether the variable was set to this value, though it may have been it before: with another type."""
        return name in self._told and self._told[name][0] is value

    def kept(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Those that are stored."""
        return {name: value for name, value in variables.items() if not self.of(name, value).transient}

    def types(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """What is to be stored beside them, of those where there is something."""
        kinds = ((name, self.of(name, value)) for name, value in variables.items())
        return {name: kind.told() for name, kind in kinds if kind != Kind()}


def _marked(
    variables: Mapping[str, Any], types: Mapping[str, Any], unmarked: dict[str, tuple[bool | None, Kind]]
) -> dict[str, Any]:
    found = dict(variables)
    for name, told in types.items():
        if name not in found:
            continue
        value, kind = found[name], Kind(told.get("type"), told.get("info"), bool(told.get("transient")))
        if value is None or isinstance(value, bool):
            unmarked[name] = (value, kind)
        else:
            found[name] = _mark(value, kind)
    return found
