"""A step: something that is done once, and whose result is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from celeriac._faults import point
from celeriac.durable._declaration import RetryPolicy
from celeriac.durable._form import PLAIN, Form, returned_by
from celeriac.durable._replay import Place, Replay
from celeriac.durable._score import Ask, Do, Score
from celeriac.durable._tries import ONCE, tries
from celeriac.durable._undo import Undos
from celeriac.errors import Invalid, StepFailed, TooLarge


def step(
    replay: Replay,
    undos: Undos,
    name: str,
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    retry: RetryPolicy | None,
    compensate: Callable[..., Any] | None,
) -> Score[Any]:
    """What `fn` returned, now or in an earlier attempt."""
    form = returned_by(fn)
    with replay.at("step", name) as place:
        undos.announce(place, compensate, args, kwargs, form)
        if place.record is not None:
            return replay.recall(place, form)
        yield from replay.go_on(place)
        if compensate is not None:
            yield Ask(lambda: replay.ledger.register_compensation(place.branch.path, place.ordinal, name))

        def once() -> Score[Any]:
            point("step.do.before", name)
            result = yield Do(fn, args, kwargs)
            point("step.do.after", name)
            return result

        result = yield from tries(replay.lease, retry or ONCE, name, once)
        return (yield from keep(replay, place, form, result))


def keep(replay: Replay, place: Place, form: Form, result: Any) -> Score[Any]:
    """Write a result down; what comes back is what a replay will get. Raises StepFailed when it cannot be stored."""
    text = storable(place, form, result)
    try:
        yield Ask(lambda: replay.record(place.ended(text)))
    except TooLarge as error:
        raise StepFailed(place.name, f"its result cannot be stored: {error}") from error
    return form.read(text)


def storable(place: Place, form: Form, result: Any) -> str:
    """A result as JSON text. Raises StepFailed, saying what is wrong with it and where."""
    try:
        return form.write(result, "result")
    except (Invalid, TooLarge) as error:
        hint = "; without an annotation of what the function returns it must be plain JSON" if form is PLAIN else ""
        raise StepFailed(place.name, f"its result cannot be stored: {error}{hint}") from error
