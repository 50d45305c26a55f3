"""One text for both kinds of handler: a durable call is a score, a generator of effects, and a player performs it.

`play` performs them one by one; `aplay` awaits them in an event loop, with what blocks in a thread. Whatever a call
decides is decided in its score, once.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from celeriac._lease import Lease
from celeriac.durable._fork import parent_only
from celeriac.errors import OutOfPlace

T = TypeVar("T")


class Effect(Protocol):
    """Something that takes time or has consequences."""

    def perform(self) -> Any: ...

    async def aperform(self) -> Any: ...


Score = Generator[Effect, Any, T]


@dataclass(frozen=True, slots=True)
class Ask:
    """A call to Postgres."""

    call: Callable[[], Any]

    def perform(self) -> Any:
        return self.call()

    async def aperform(self) -> Any:
        return await asyncio.to_thread(self.call)


@dataclass(frozen=True, slots=True)
class Do:
    """The user's code. In an async handler plain functions run in a thread, so that they do not stop the loop."""

    fn: Callable[..., Any]
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def perform(self) -> Any:
        with parent_only():
            result = self.fn(*self.args, **self.kwargs)
        if inspect.iscoroutine(result):
            result.close()
            raise OutOfPlace(f"{_name(self.fn)} is a coroutine function; only an `async def` handler can await it")
        return result

    async def aperform(self) -> Any:
        if inspect.iscoroutinefunction(self.fn):
            with parent_only():
                return await self.fn(*self.args, **self.kwargs)
        result, error = await asyncio.to_thread(self._call)
        if error is not None:
            raise error
        with parent_only():
            return await result if inspect.isawaitable(result) else result

    def _call(self) -> tuple[Any, BaseException | None]:
        """Its result or its error: as a value, since a StopIteration never comes out of a thread (before 3.12)."""
        try:
            with parent_only():
                return self.fn(*self.args, **self.kwargs), None
        except BaseException as error:  # noqa: BLE001
            return None, error


@dataclass(frozen=True, slots=True)
class Pause:
    """Some time, which ends early when the handler should stop."""

    lease: Lease
    seconds: float

    def perform(self) -> None:
        self.lease.wait(self.seconds * self.lease.tempo)
        self._check()

    async def aperform(self) -> None:
        await asyncio.sleep(self.seconds * self.lease.tempo)
        self._check()

    def _check(self) -> None:
        if reason := self.lease.stopped:
            raise reason


def play(score: Score[T]) -> T:
    """Perform a score in this thread."""
    try:
        effect = next(score)
        while True:
            try:
                answer = effect.perform()
            except BaseException as error:  # noqa: BLE001 - the score decides what it means
                effect = score.throw(error)
            else:
                effect = score.send(answer)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def aplay(score: Score[T]) -> T:
    """Perform a score in this event loop."""
    try:
        effect = next(score)
        while True:
            try:
                answer = await effect.aperform()
            except BaseException as error:  # noqa: BLE001 - the score decides what it means
                effect = score.throw(error)
            else:
                effect = score.send(answer)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def _name(fn: Callable[..., Any]) -> str:
    return getattr(fn, "__qualname__", None) or repr(type(fn))
