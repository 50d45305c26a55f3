"""A transaction: the user's writes, the proof that the lease holds, and the record of the step, in one commit.

What has been done is not done again, but a `with` block cannot be skipped: in a replay its body runs in a transaction
that is rolled back, and its errors are of no account (the row that it inserts is there already). `transact` takes a
function, which is skipped.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from celeriac._faults import point
from celeriac.durable._failure import reason_of
from celeriac.durable._fork import parent_only
from celeriac.durable._form import NULL, returned_by
from celeriac.durable._ledger import Record
from celeriac.durable._replay import Place, Replay
from celeriac.durable._score import Do, aplay, play
from celeriac.durable._step import storable
from celeriac.durable._transactions import Transactions, atransaction, transaction
from celeriac.durable._tries import PASSED_ON
from celeriac.errors import StepFailed

log = logging.getLogger("celeriac.task")


@contextmanager
def block(replay: Replay, transactions: Transactions, source: Any, name: str) -> Iterator[Any]:
    """A session or connection; what is written with it inside of the block is committed once."""
    with replay.at("transaction", name) as place:
        if place.record is not None:
            _recall_failure(place)
            began = False
            try:
                with transactions.open(source) as session, transaction(session, None):
                    began = True
                    with parent_only():
                        yield session
            except Exception as error:  # noqa: BLE001
                _pass_over(place, began, error)
            return
        play(replay.go_on(place))
        record = place.ended(NULL)
        with _failing(replay, name), transactions.open(source) as session:
            with transaction(session, lambda: _seal(replay, session, record)):
                with parent_only():
                    yield session
                point("transaction.body.after", name)
            _committed(replay, record)


@asynccontextmanager
async def ablock(replay: Replay, transactions: Transactions, source: Any, name: str) -> AsyncIterator[Any]:
    """`block` for an async handler."""
    with replay.at("transaction", name) as place:
        if place.record is not None:
            _recall_failure(place)
            began = False
            try:
                async with transactions.aopen(source) as session, atransaction(session, None):
                    began = True
                    with parent_only():
                        yield session
            except Exception as error:  # noqa: BLE001
                _pass_over(place, began, error)
            return
        await aplay(replay.go_on(place))
        record = place.ended(NULL)
        with _failing(replay, name):
            async with transactions.aopen(source) as session:
                async with atransaction(session, lambda: _aseal(replay, session, record)):
                    with parent_only():
                        yield session
                    point("transaction.body.after", name)
                _committed(replay, record)


def call(
    replay: Replay,
    transactions: Transactions,
    source: Any,
    name: str,
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    """What `fn(session, …)` returned, whose writes were committed with its result; now or in an earlier attempt."""
    form = returned_by(fn)
    with replay.at("transaction", name) as place:
        if place.record is not None:
            return replay.recall(place, form)
        play(replay.go_on(place))
        record = None
        with _failing(replay, name), transactions.open(source) as session:
            with transaction(session, lambda: _seal(replay, session, record)):
                text = storable(place, form, Do(fn, (session, *args), kwargs).perform())
                record = place.ended(text)
                point("transaction.body.after", name)
            _committed(replay, record)
        return form.read(text)


async def acall(
    replay: Replay,
    transactions: Transactions,
    source: Any,
    name: str,
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    """`call` for an async handler and a coroutine function."""
    form = returned_by(fn)
    with replay.at("transaction", name) as place:
        if place.record is not None:
            return replay.recall(place, form)
        await aplay(replay.go_on(place))
        record = None
        with _failing(replay, name):
            async with transactions.aopen(source) as session:
                async with atransaction(session, lambda: _aseal(replay, session, record)):
                    with parent_only():
                        result = await fn(session, *args, **kwargs)
                    text = storable(place, form, result)
                    record = place.ended(text)
                    point("transaction.body.after", name)
                _committed(replay, record)
        return form.read(text)


@contextmanager
def _failing(replay: Replay, name: str) -> Iterator[None]:
    """An error of the body or of the commit is the failure of the step, as a replay will see it."""
    try:
        yield
    except PASSED_ON:
        raise
    except Exception as error:
        if replay.lease.stopped:
            raise
        raise StepFailed(name, reason_of(error)) from error


def _seal(replay: Replay, session: Any, record: Record | None) -> None:
    assert record is not None
    replay.ledger.record_on(session, record)
    point("transaction.commit.before", record.name)


async def _aseal(replay: Replay, session: Any, record: Record | None) -> None:
    assert record is not None
    await replay.ledger.arecord_on(session, record)
    point("transaction.commit.before", record.name)


def _committed(replay: Replay, record: Record) -> None:
    point("transaction.commit.after", record.name)
    replay.learn(record)


def _recall_failure(place: Place) -> None:
    assert place.record is not None
    if place.record.error is not None:
        raise StepFailed(place.name, place.record.error)


def _pass_over(place: Place, began: bool, error: Exception) -> None:
    if not began:
        raise error
    log.debug("%s was committed before; its replay raised %s", place, reason_of(error))
