"""What the handler of a durable task gets that is an `async def`: the same calls, awaited."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar, Unpack, overload

from celeriac.durable import _gather, _operation, _step, _transaction, _wait
from celeriac.durable._context import AnyContext, child_of
from celeriac.durable._declaration import DurableTask, RetryPolicy
from celeriac.durable._form import PLAIN, Form
from celeriac.durable._replay import Replay
from celeriac.durable._score import aplay
from celeriac.durable._wait import Signal
from celeriac.values import NewTask, TaskOptions

T = TypeVar("T")


class AsyncContext(AnyContext):
    """`Context` for an `async def` handler. Functions that it is given may be plain (they run in a thread) or async.

    The handler has an event loop of its own, which ends with the attempt; it gets a CancelledError when the lease ends.
    Durable calls are awaited where they are made: `asyncio.gather` and tasks of your own would make their order chance.
    """

    @overload
    async def step(
        self,
        name: str,
        fn: Callable[..., Awaitable[T]],
        *args: Any,
        retry: RetryPolicy | None = None,
        compensate: Callable[..., Any] | None = None,
        **kwargs: Any,
    ) -> T: ...
    @overload
    async def step(
        self,
        name: str,
        fn: Callable[..., T],
        *args: Any,
        retry: RetryPolicy | None = None,
        compensate: Callable[..., Any] | None = None,
        **kwargs: Any,
    ) -> T: ...
    async def step(
        self,
        name: str,
        fn: Callable[..., Any],
        *args: Any,
        retry: RetryPolicy | None = None,
        compensate: Callable[..., Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Call `fn` once and keep what it returns; see `Context.step`."""
        return await aplay(_step.step(self._replay, self._undos, name, fn, args, kwargs, retry, compensate))

    async def operation(
        self,
        name: str,
        plan: Any,
        *,
        do: Callable[[Any], Any],
        reconcile: Callable[[Any], Any] | None = None,
        retry: RetryPolicy | None = None,
        compensate: Callable[..., Any] | None = None,
    ) -> Any:
        """Call `do(plan)` for its effect outside, at most once; see `Context.operation`."""
        return await aplay(
            _operation.operation(self._replay, self._undos, name, plan, do, reconcile, retry, compensate)
        )

    def transaction(self, source: Any = None, *, name: str = "transaction") -> AbstractAsyncContextManager[Any]:
        """An asyncio session or connection, to be used with `async with`; see `Context.transaction`."""
        return _transaction.ablock(self._replay, self._transactions, source, name)

    async def transact(
        self, name: str, fn: Callable[..., Awaitable[T]], *args: Any, source: Any = None, **kwargs: Any
    ) -> T:
        """Await `fn(session, *args, **kwargs)` and commit its writes with its result, once."""
        result: T = await _transaction.acall(self._replay, self._transactions, source, name, fn, args, kwargs)
        return result

    async def wait_for(
        self,
        topic: str,
        key: str | None = None,
        timeout: float | timedelta | None = None,  # noqa: ASYNC109 - it lasts longer than the process
    ) -> Signal | None:
        """Wait for a signal, without a worker; None when `timeout` (seconds or a timedelta) has passed."""
        return await aplay(_wait.wait_for(self._replay, topic, key, timeout))

    async def sleep(self, duration: float | timedelta) -> None:
        """Let time pass (seconds or a timedelta), without a worker."""
        await aplay(_wait.sleep(self._replay, duration))

    async def sleep_until(self, moment: datetime) -> None:
        """Wait for a moment, which has a time zone, without a worker."""
        await aplay(_wait.sleep_until(self._replay, moment))

    async def enqueue(self, task: DurableTask | str, input: Any = None, **options: Unpack[TaskOptions]) -> AsyncChild:
        """Create a task, once. It is canceled with this one; `await result()` waits for it."""
        new, form = child_of(task, input, options)
        [task_id] = await aplay(_wait.enqueue(self._replay, new.task_type, [new]))
        return AsyncChild(task_id, new.task_type, form, self._replay)

    async def enqueue_many(self, tasks: Sequence[NewTask]) -> list[AsyncChild]:
        """Create up to 5 000 tasks in one round trip, once."""
        ids = await aplay(_wait.enqueue(self._replay, "enqueue_many", tasks)) if tasks else []
        return [
            AsyncChild(task_id, new.task_type, PLAIN, self._replay) for task_id, new in zip(ids, tasks, strict=True)
        ]

    async def gather(self, *callables: Callable[[], Awaitable[Any]] | Awaitable[Any]) -> list[Any]:
        """Await several functions or coroutines at once, each in an asyncio task; see `Context.gather`."""
        return await aplay(_gather.gather(self._replay, callables))


@dataclass(frozen=True, slots=True)
class AsyncChild:
    """A task that was created by this one."""

    task_id: str
    task_type: str
    _form: Form
    _replay: Replay

    async def result(self, timeout: float | timedelta | None = None) -> Any:  # noqa: ASYNC109
        """Wait for its end, without a worker; see `Child.result`."""
        return await aplay(_wait.result_of(self._replay, self.task_id, self.task_type, self._form, timeout))
