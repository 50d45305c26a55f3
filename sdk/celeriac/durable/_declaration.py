"""What a user declares: a handler and what its task type is to be like."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Unpack

from celeriac import _json
from celeriac.durable._form import Form, handler_forms
from celeriac.enqueue import aenqueue_many, enqueue_many
from celeriac.errors import Invalid
from celeriac.values import EnqueuedTask, NewTask, TaskOptions

if TYPE_CHECKING:
    from celeriac._callers_connection import AwaitedConnection, BlockingConnection

Handler = Callable[..., Any]

# What check_task_type and check_limits in Postgres take.
LARGEST_INTEGER: Final = 2**31 - 1
LARGEST_FACTOR: Final = 100
SHORTEST_SECONDS: Final = 0.001
LONGEST_LEASE_SECONDS: Final = 2_592_000
LONGEST_PAUSE_SECONDS: Final = 3_155_760_000
LONGEST_NAME: Final = 255
MOST_AT_ONCE: Final = 10_000
MOST_OF_A_RATE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When what failed is tried again; None keeps what the task type has (or, of a step, 1, 1 s, 2 and 60 s).

    `attempts` is how many may fail before it has FAILED. The pause after a failure is `first` seconds, times `factor`
    for each further one, and never more than `cap` seconds. What is an instance of `never` is not tried again.
    Raises ValueError for what could not be.
    """

    attempts: int | None = None
    first: float | None = None
    factor: float | None = None
    cap: float | None = None
    never: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        if self.attempts is not None:
            _check_whole(self.attempts, "attempts", 1, LARGEST_INTEGER)
        for name, least in (("first", 0), ("factor", 1), ("cap", 0)):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and least <= value < math.inf):
                raise ValueError(f"{name} must be {least} or more, not {value!r}")


@dataclass(frozen=True)
class DurableTask:
    """A handler with its task type. Calling it calls the handler, as a test of the handler would.

    Raises ValueError, naming the field, for what Postgres or a worker would refuse only when it is deployed.
    """

    task_type: str
    handler: Handler
    version: int = 1
    lease: float | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    queue: str | None = None
    batch: bool = False
    time_limit: float | None = None
    soft_time_limit: float | None = None
    concurrency: int | None = None
    rate: tuple[int, float] | None = None
    compensate_retry: RetryPolicy = field(default_factory=lambda: RetryPolicy(attempts=3))

    def __post_init__(self) -> None:
        _check_name(self.task_type)
        try:
            self._check_settings()
        except ValueError as error:
            raise ValueError(f"{self.task_type!r}: {error}") from None

    def __call__(self, ctx: Any, *input: Any) -> Any:
        return self.handler(ctx, *input)

    @property
    def is_async(self) -> bool:
        """Whether the handler is an `async def`."""
        return inspect.iscoroutinefunction(self.handler)

    @functools.cached_property
    def forms(self) -> tuple[Form | None, Form]:
        """The forms of input (None: the handler takes only the context) and result."""
        return handler_forms(self.handler)

    def _check_settings(self) -> None:
        _check_whole(self.version, "version", 1, LARGEST_INTEGER)
        _check_seconds(self.lease, "lease", SHORTEST_SECONDS, LONGEST_LEASE_SECONDS)
        _check_seconds(self.retry.first, "retry.first", 0, LONGEST_PAUSE_SECONDS)
        _check_seconds(self.retry.cap, "retry.cap", 0, LONGEST_PAUSE_SECONDS)
        if self.retry.factor is not None and self.retry.factor > LARGEST_FACTOR:
            raise ValueError(f"retry.factor must be at most {LARGEST_FACTOR}, not {self.retry.factor!r}")
        _check_queue(self.queue)
        _check_time_limits(self.soft_time_limit, self.time_limit)
        if self.concurrency is not None:
            _check_whole(self.concurrency, "concurrency", 0, MOST_AT_ONCE)
        if self.rate is not None:
            _check_rate(self.rate)

    def check(self) -> None:
        """Raises TypeError when the handler cannot be called with a context and an input, or returns no object."""
        try:
            self.forms  # noqa: B018 - reads the annotations
        except TypeError as error:
            raise TypeError(f"{self.task_type!r}: {error}") from None

    def variables(self, input: Any = None) -> Mapping[str, Any]:
        """An input as the variables of a task. Raises Invalid, naming the field, for what the handler would refuse."""
        takes, _ = self.forms
        if takes is None:
            if input:
                raise Invalid(f"the handler of {self.task_type!r} takes no input", field="input")
            return {}
        value: Any = takes.check({} if input is None else input, "input")
        variables = _json.decode(takes.write(value, "input").encode(), _json.decoder())
        if not isinstance(variables, dict):
            raise Invalid("the input must be an object: a model, a dataclass or a dict", field="input")
        return variables

    def new(self, input: Any = None, **options: Unpack[TaskOptions]) -> NewTask:
        """A task of this type and version, for `celeriac.enqueue_many`. Raises Invalid, as `enqueue` does."""
        options.setdefault("version", self.version)
        return NewTask(self.task_type, self.variables(input), **options)

    def enqueue(self, conn: BlockingConnection, input: Any = None, **options: Unpack[TaskOptions]) -> EnqueuedTask:
        """Create a task of this type and version in the transaction of `conn`; see `celeriac.enqueue`.

        Raises Invalid, before anything is sent, for an input that the handler would refuse.
        """
        return enqueue_many(conn, [self.new(input, **options)])[0]

    async def aenqueue(
        self, conn: AwaitedConnection, input: Any = None, **options: Unpack[TaskOptions]
    ) -> EnqueuedTask:
        """`enqueue` for an AsyncSession, an AsyncConnection or a psycopg AsyncConnection."""
        return (await aenqueue_many(conn, [self.new(input, **options)]))[0]


def task(
    task_type: str,
    *,
    version: int = 1,
    lease: float | None = None,
    retry: RetryPolicy | None = None,
    queue: str | None = None,
    batch: bool = False,
    time_limit: float | None = None,
    soft_time_limit: float | None = None,
    concurrency: int | None = None,
    rate: tuple[int, float] | None = None,
    compensate_retry: RetryPolicy | None = None,
) -> Callable[[Handler], DurableTask]:
    """Declare a handler for the tasks of one type and version; give what it returns to `install`.

    The handler takes a Context (an AsyncContext if it is `async def`) and, if it wants one, an input, whose annotation
    says what the variables must look like. Durations are in seconds.

    `lease` is how soon another worker takes over when this one dies, not how long the handler may take; for that there
    are `soft_time_limit` (SoftTimeLimitExceeded is raised) and `time_limit` (the attempt fails). `queue` is the Celery
    queue whose workers run it (None: the app's default queue). `concurrency` is how many tasks of one concurrency key
    run at once, `rate=(100, 60)` hands out at most 100 a minute. With `batch=True` tiny idempotent tasks are
    claimed and completed many at a time. `compensate_retry` is for the undos of its steps (None: three tries).
    """

    def declare(handler: Handler) -> DurableTask:
        return DurableTask(
            task_type,
            handler,
            version,
            lease,
            retry or RetryPolicy(),
            queue,
            batch,
            time_limit,
            soft_time_limit,
            concurrency,
            rate,
            compensate_retry or RetryPolicy(attempts=3),
        )

    return declare


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_whole(value: Any, name: str, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{name} must be a whole number of {low} to {high}, not {value!r}")


def _check_seconds(value: Any, name: str, low: float, high: float) -> None:
    if value is not None and not (_is_number(value) and low <= value <= high):
        raise ValueError(f"{name} must be {low} to {high} seconds, not {value!r}")


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_NAME or name != name.strip() or "*" in name:
        raise ValueError(
            f"task_type must be 1 to {LONGEST_NAME} characters without surrounding space and without *, not {name!r}"
        )


def _check_queue(queue: Any) -> None:
    if queue is None:
        return
    if not isinstance(queue, str) or not 1 <= len(queue.encode()) <= LONGEST_NAME or queue != queue.strip():
        raise ValueError(f"queue must be 1 to {LONGEST_NAME} bytes without surrounding space, not {queue!r}")


def _check_time_limits(soft: Any, hard: Any) -> None:
    for name, limit in (("soft_time_limit", soft), ("time_limit", hard)):
        if limit is not None and not (_is_number(limit) and limit > 0):
            raise ValueError(f"{name} must be more than 0 seconds, not {limit!r}")
    if soft is not None and hard is not None and soft >= hard:
        raise ValueError(f"soft_time_limit must be less than time_limit ({hard!r}), not {soft!r}")


def _check_rate(rate: Any) -> None:
    """(0, 0) takes the limit away."""
    if not isinstance(rate, tuple | list) or len(rate) != 2:
        raise ValueError(f"rate must be (tasks, seconds), not {rate!r}")
    tasks, seconds = rate
    if (tasks, seconds) != (0, 0):
        _check_whole(tasks, "rate must be (tasks, seconds): tasks", 1, MOST_OF_A_RATE)
        _check_seconds(seconds, "rate must be (tasks, seconds): seconds", SHORTEST_SECONDS, LONGEST_LEASE_SECONDS)
