"""What values look like in Postgres, and as what they come back: the door between handlers and JSON.

An annotation says the form. Models of pydantic, dataclasses, TypedDicts, dates, enums and so on need pydantic; without
an annotation (or with `dict`, `Any`, `object`) a value must be plain JSON. A value that is written and read again is
what every caller gets, also in the first run: so a replay cannot see another one.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from decimal import Decimal
from typing import Any, Final

from celeriac import _json
from celeriac.errors import Fatal, Invalid, TooLarge

LARGEST_BYTES: Final = 1024 * 1024
NULL: Final = "null"

_DECODER: Final = _json.decoder()
_CONTAINERS: Final = (dict, list, Mapping, Sequence)
_ANYTHING: Final = (Any, object, dict, list, Mapping, Sequence, None, type(None), inspect.Parameter.empty)
_SILENT: Final = {"value_error", "assertion_error"}  # their messages are the user's, and may hold the value


@dataclass(frozen=True, slots=True)
class Form:
    """A value's type, as its annotation says. `adapter` is pydantic's, None for plain JSON."""

    adapter: Any = None

    def write(self, value: Any, name: str) -> str:
        """The value as JSON text. Raises Invalid or TooLarge, naming the place in it, never the value."""
        text = _json.encode(self._dump(value, name), name).decode()
        if len(text) > LARGEST_BYTES // 4 and len(text.encode()) > LARGEST_BYTES:
            raise TooLarge(
                f"{name} has {len(text.encode())} bytes of JSON; at most {LARGEST_BYTES} are stored", field=name
            )
        if "{" in text or "e+" in text:
            text = _json.encode(_as_stored(_json.decode(text.encode(), _DECODER)), name).decode()
        return text

    def read(self, text: str) -> Any:
        """The value of JSON text; raises Invalid, naming the field, when it is no value of this type."""
        if self.adapter is None:
            return _json.decode(text.encode(), _DECODER)
        import pydantic

        try:
            return self.adapter.validate_json(text)
        except pydantic.ValidationError as error:
            raise Invalid(_faults(error), field=_field(error.errors(include_url=False)[0])) from None

    def check(self, value: Any, name: str) -> Any:
        """The value as an instance of its type: a dict becomes the model that it describes. Raises Invalid."""
        if self.adapter is None:
            return value
        import pydantic

        try:
            return self.adapter.validate_python(value)
        except pydantic.ValidationError as error:
            raise Invalid(f"{name}: {_faults(error)}", field=name) from None

    def _dump(self, value: Any, name: str) -> Any:
        if self.adapter is None:
            return value
        import pydantic_core

        try:
            return self.adapter.dump_python(value, mode="json", warnings="error")
        except (pydantic_core.PydanticSerializationError, ValueError, TypeError, RecursionError):
            kind = type(value).__qualname__
            raise Invalid(f"{name} is of type {kind} and cannot be stored as its annotation says", field=name) from None


PLAIN: Final = Form()


def form_of(annotation: Any) -> Form:
    """The form of an annotation. Raises TypeError when it cannot be one, or pydantic is needed and not there."""
    try:
        hash(annotation)
    except TypeError:  # Annotated with a list, say
        return _new_form(annotation)
    return _kept_form(annotation)


def _new_form(annotation: Any) -> Form:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation in _ANYTHING or (origin in _CONTAINERS and arguments[-1] in (Any, object)):
        return PLAIN
    try:
        import pydantic
    except ImportError:
        raise TypeError(f"{annotation!r} needs pydantic: install celeriac[celery]") from None
    try:
        return Form(pydantic.TypeAdapter(_portable(annotation)))
    except pydantic.PydanticUserError as error:
        raise TypeError(f"{annotation!r} cannot be read from JSON: {error.message.splitlines()[0]}") from None


_kept_form = functools.lru_cache(maxsize=1024)(_new_form)
_RETURNED: Final[weakref.WeakKeyDictionary[Any, Form]] = weakref.WeakKeyDictionary()


def returned_by(fn: Callable[..., Any]) -> Form:
    """The form of what a function returns, or its coroutine does. Raises TypeError when its annotation says none."""
    function = _function(fn)
    if "return" not in getattr(function, "__annotations__", ()):
        return PLAIN
    form = _RETURNED.get(function)
    if form is None:
        form = _RETURNED[function] = form_of(_awaited(_hint(function, "return")))
    return form


def first_parameter(fn: Callable[..., Any], value: Any) -> Form:
    """The form of what a function takes first; without an annotation, that of `value` if it is a model or dataclass."""
    function = _function(fn)
    for parameter in _parameters(fn)[:1]:
        if parameter.name in getattr(function, "__annotations__", ()):
            return form_of(_hint(function, parameter.name))
    is_model = is_dataclass(value) or hasattr(value, "model_dump")
    return form_of(type(value)) if is_model else PLAIN


def handler_forms(handler: Callable[..., Any]) -> tuple[Form | None, Form]:
    """The forms of a handler's input (None: it takes only the context) and result. Raises TypeError for any other."""
    parameters = _parameters(handler)
    if not 1 <= len(parameters) <= 2:
        raise TypeError(f"{_title(handler)} must take the context, or the context and an input")
    function = _function(handler)
    takes = form_of(_hint(function, parameters[1].name)) if len(parameters) == 2 else None
    return takes, form_of(_awaited(_hint(function, "return")))


class Unreadable(Fatal):
    """The variables are no input for this handler, and no attempt can make one of them."""


def read_input(form: Form, variables: Mapping[str, Any]) -> Any:
    """A task's variables as the input of its handler. Raises Unreadable, naming the field."""
    if form is PLAIN:
        return variables
    try:
        return form.read(_json.encode(variables).decode())
    except Invalid as error:
        raise Unreadable(f"the variables are no input for this handler: {error}") from None


def takes_result(fn: Callable[..., Any]) -> bool:
    """Whether a function asks for `result` by that name."""
    return any(parameter.name == "result" for parameter in _parameters(fn))


def _as_stored(value: Any) -> Any:
    """The value as jsonb gives it back: shorter names first, and large fractions still fractions.

    Else a dict would have another order in a replay than in the first run, and a loop over it other steps.
    """
    if isinstance(value, dict):
        return {name: _as_stored(value[name]) for name in sorted(value, key=lambda name: (len(name.encode()), name))}
    if isinstance(value, list):
        return [_as_stored(item) for item in value]
    if isinstance(value, float) and value.is_integer() and "e" in repr(value):
        return Decimal(f"{Decimal(repr(value)):f}.0")
    return value


def _portable(annotation: Any) -> Any:
    """Before Python 3.12 pydantic takes only the TypedDicts of typing_extensions: the same one, made there."""
    if sys.version_info >= (3, 12) or not typing.is_typeddict(annotation):
        return annotation
    import typing_extensions as later

    fields = {
        name: (later.Required if name in annotation.__required_keys__ else later.NotRequired)[_portable(hint)]
        for name, hint in typing.get_type_hints(annotation).items()
    }
    return later.TypedDict(annotation.__name__, fields)  # type: ignore[operator]


def _awaited(annotation: Any) -> Any:
    """What comes of it once it was awaited."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    return arguments[-1] if arguments and origin in (Awaitable, Coroutine) else annotation


def _function(fn: Any) -> Any:
    """The function that carries the annotations: inside partials, behind a bound method, or an object's __call__."""
    while hasattr(fn, "func"):
        fn = fn.func
    fn = getattr(fn, "__func__", fn)
    fn = inspect.unwrap(fn)
    return fn if isinstance(fn, types.FunctionType | type) else type(fn).__call__


def _hint(function: Any, name: str) -> Any:
    """One annotation, Any if there is none; the others may be for a type checker's eyes only."""
    annotations = getattr(function, "__annotations__", {})
    alone = types.SimpleNamespace(__annotations__={name: annotations.get(name, Any)})
    try:
        return typing.get_type_hints(alone, getattr(function, "__globals__", {}), include_extras=True)[name]
    except (NameError, TypeError, SyntaxError) as error:
        raise TypeError(f"the annotation {name!r} of {_title(function)} cannot be read: {error}") from None


def _parameters(fn: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(fn).parameters.values())
    except (ValueError, TypeError):  # some that are written in C have none
        return []


def _faults(error: Any) -> str:
    return "; ".join(f"{_field(fault)}: {_reason(fault)}" for fault in error.errors(include_url=False)[:5])


def _field(fault: Mapping[str, Any]) -> str:
    return ".".join(str(part) for part in fault["loc"]) or "the whole"


def _reason(fault: Mapping[str, Any]) -> str:
    return "was refused by its validator" if fault["type"] in _SILENT else str(fault["msg"])


def _title(fn: Any) -> str:
    return getattr(fn, "__qualname__", None) or type(fn).__qualname__
