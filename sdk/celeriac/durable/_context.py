"""What the handler of a durable task gets."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack

from celeriac.context import TaskContext
from celeriac.durable import _gather, _operation, _step, _transaction, _wait
from celeriac.durable._declaration import DurableTask, RetryPolicy
from celeriac.durable._form import PLAIN, Form
from celeriac.durable._operation import Done, NotDone, Unknown
from celeriac.durable._replay import Replay
from celeriac.durable._score import play
from celeriac.durable._transactions import Transactions
from celeriac.durable._undo import Undos
from celeriac.durable._wait import Signal
from celeriac.values import NewTask, TaskOptions

P = ParamSpec("P")
T = TypeVar("T")


class AnyContext(TaskContext):
    """What both kinds of context share."""

    def __init__(self, replay: Replay, undos: Undos, transactions: Transactions) -> None:
        super().__init__(replay.lease)
        self._replay = replay
        self._undos = undos
        self._transactions = transactions

    @functools.cached_property
    def variables(self) -> dict[str, Any]:
        """Its own copy: what a handler does to them, its next run must not see."""
        return copy.deepcopy(self.task.variables)

    def idempotency_key(self, step: str) -> str:
        """A key for the API of somebody else: the same in every attempt at this task, and in no other task.

        A task that was undone and then redriven has other keys: its first effects are gone, and nobody should be
        answered with them.
        """
        life = f".{self.task.lives}" if self.task.lives else ""
        return f"{self.task_id}{life}:{step}"


class Context(AnyContext):
    """One attempt at one durable task.

    After a crash or a wait the handler runs again from its top, and each durable call that has come to its end before
    returns what it returned then. So between those calls a handler decides by its input and by their results alone:
    what is random, or from a clock or a table, belongs into a step.
    """

    def step(
        self,
        name: str,
        fn: Callable[..., T],
        *args: Any,
        retry: RetryPolicy | None = None,
        compensate: Callable[..., Any] | None = None,
        **kwargs: Any,
    ) -> T:
        """Call `fn(*args, **kwargs)` once and keep what it returns, in the type of its annotation.

        It runs again if the worker dies before the result is written down. When its last try (of `retry`) has failed,
        StepFailed is raised. `compensate(*args, **kwargs)` undoes it if the task fails for good; if it has a parameter
        `result` it gets that, too, or None when nobody knows whether the step was done.
        """
        result: T = play(_step.step(self._replay, self._undos, name, fn, args, kwargs, retry, compensate))
        return result

    def operation(
        self,
        name: str,
        plan: Any,
        *,
        do: Callable[[Any], T],
        reconcile: Callable[[Any], Done | NotDone | Unknown] | None = None,
        retry: RetryPolicy | None = None,
        compensate: Callable[..., Any] | None = None,
    ) -> T:
        """Call `do(plan)` for its effect outside, at most once unless `reconcile(plan)` says that it was not done.

        Whoever takes over an operation that has begun asks `reconcile`, which returns Done(result), NotDone() or
        Unknown(why). Without it, or when it is unknown, a person decides: `celeriac operations resolve`.
        """
        result: T = play(_operation.operation(self._replay, self._undos, name, plan, do, reconcile, retry, compensate))
        return result

    def transaction(self, source: Any = None, *, name: str = "transaction") -> AbstractContextManager[Any]:
        """A session or connection whose writes are committed with the record of this step, if the lease still holds.

        In a replay the block runs in a transaction that is rolled back, and its errors are ignored: use nothing that is
        set inside of it after it. `transact` is skipped instead. `source` is a sessionmaker, an Engine, a Session, a
        Connection or a psycopg connection (None: what was configured, else psycopg on Celeriac's own database).
        """
        return _transaction.block(self._replay, self._transactions, source, name)

    def transact(
        self, name: str, fn: Callable[Concatenate[Any, ...], T], *args: Any, source: Any = None, **kwargs: Any
    ) -> T:
        """Call `fn(session, *args, **kwargs)` and commit its writes with its result, once; see `transaction`."""
        result: T = _transaction.call(self._replay, self._transactions, source, name, fn, args, kwargs)
        return result

    def wait_for(self, topic: str, key: str | None = None, timeout: float | timedelta | None = None) -> Signal | None:
        """Wait for a signal, without a worker; None when `timeout` (seconds or a timedelta) has passed."""
        return play(_wait.wait_for(self._replay, topic, key, timeout))

    def sleep(self, duration: float | timedelta) -> None:
        """Let time pass (seconds or a timedelta), without a worker."""
        play(_wait.sleep(self._replay, duration))

    def sleep_until(self, moment: datetime) -> None:
        """Wait for a moment, which has a time zone, without a worker."""
        play(_wait.sleep_until(self._replay, moment))

    def enqueue(self, task: DurableTask | str, input: Any = None, **options: Unpack[TaskOptions]) -> Child:
        """Create a task, once. It is canceled with this one; `result()` waits for it."""
        new, form = child_of(task, input, options)
        [task_id] = play(_wait.enqueue(self._replay, new.task_type, [new]))
        return Child(task_id, new.task_type, form, self._replay)

    def enqueue_many(self, tasks: Sequence[NewTask]) -> list[Child]:
        """Create up to 5 000 tasks in one round trip, once."""
        ids = play(_wait.enqueue(self._replay, "enqueue_many", tasks)) if tasks else []
        return [Child(task_id, new.task_type, PLAIN, self._replay) for task_id, new in zip(ids, tasks, strict=True)]

    def gather(self, *callables: Callable[[], Any]) -> list[Any]:
        """Call several functions at once, each in a thread, which may make durable calls; what they return, in order.

        When all have ended or wait, it raises the first error, if there is one.
        """
        return play(_gather.gather(self._replay, callables))


@dataclass(frozen=True, slots=True)
class Child:
    """A task that was created by this one."""

    task_id: str
    task_type: str
    _form: Form
    _replay: Replay

    def result(self, timeout: float | timedelta | None = None) -> Any:
        """Wait for its end, without a worker.

        Raises ChildFailed when it FAILED or was CANCELED, TimeoutError when `timeout` has passed.
        """
        return play(_wait.result_of(self._replay, self.task_id, self.task_type, self._form, timeout))


def child_of(task: DurableTask | str, input: Any, options: TaskOptions) -> tuple[NewTask, Form]:
    """A task to enqueue, and the form of its result."""
    if isinstance(task, DurableTask):
        _, gives = task.forms
        return task.new(input, **options), gives
    return NewTask(task, {} if input is None else input, **options), PLAIN
