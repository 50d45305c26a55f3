"""Where `ctx.transaction()` gets its sessions and connections, and how one transaction on them is kept whole.

A source is a sessionmaker, an Engine, or any function that returns a Session, a Connection or a psycopg connection, for
this transaction alone; or one of these three itself, which stays open. An async handler takes their asyncio
counterparts. Nothing is imported that the user has not imported: what a source is, its library says.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final

from celeriac import _callers_connection
from celeriac.errors import Fatal, OutOfPlace

if TYPE_CHECKING:
    from celeriac.durable._database import Database

ENDED_INSIDE: Final = "the transaction was ended inside of its block; ctx.transaction() commits it, with its record"
ENDED_BY_STATEMENT: Final = (
    "the transaction was ended inside of its block by a statement (commit, rollback, autocommit): what was written"
    " before may be saved without its record, so this is not tried again; ctx.transaction() commits it, with its record"
)
IN_USE: Final = "the session or connection is in a transaction already; give one that is in none"

# A setting that ends with the transaction in which it was made. Setting it takes no snapshot, as a query would: the
# block may still begin with `set transaction isolation level`.
OURS: Final = "current_setting('celeriac.transaction', true) = 'open'"
_MARK: Final = "set local celeriac.transaction = 'open'"
_ASK: Final = f"select 1 where {OURS}"


class Transactions:
    """The default source of a process: what was configured, else psycopg connections to Celeriac's own database."""

    def __init__(self, source: Any, database: Database) -> None:
        self._source = source
        self._conninfo = database.conninfo
        # Of its own: what a handler sets on a connection must not meet the calls of the worker.
        self._database: Database | None = None
        self._pid = os.getpid()

    def close(self) -> None:
        """Close what nobody uses now."""
        if self._database is not None:
            self._database.close()

    @contextmanager
    def open(self, source: Any = None) -> Iterator[Any]:
        """A session or connection that is in no transaction; closed at the end unless it is the user's own."""
        source = self._or_default(source)
        if source is None:
            with self._borrowed() as connection:
                yield connection
            return
        session, is_ours = _made(source)
        if not (_is_psycopg(session) or hasattr(session, "in_transaction")) or _is_awaited(session):
            raise TypeError(f"a {type(session).__qualname__} is no source of transactions for a plain handler")
        try:
            yield session
        finally:
            if is_ours:
                session.close()

    @asynccontextmanager
    async def aopen(self, source: Any = None) -> AsyncIterator[Any]:
        """`open` for a handler that is a coroutine."""
        source = self._or_default(source)
        session, is_ours = (await self._aconnect(), True) if source is None else _made(source)
        if not _is_awaited(session):
            raise TypeError(f"a {type(session).__qualname__} is no source of transactions for an async handler")
        if hasattr(session, "start") and not getattr(session, "sync_connection", True):  # AsyncEngine.connect()
            await session.start()
        try:
            yield session
        finally:
            if is_ours:
                await session.close()

    @contextmanager
    def _borrowed(self) -> Iterator[Any]:
        from psycopg.rows import tuple_row

        from celeriac.durable._database import Database

        if self._database is None:
            self._database = Database(self._conninfo)
        with self._database.borrow() as connection:
            plain: Any = connection
            plain.row_factory = tuple_row
            plain.execute("reset all")  # whatever the last handler has set is not for this one
            yield plain

    def _or_default(self, source: Any) -> Any:
        chosen = self._source if source is None else source
        if self._pid != os.getpid():
            # Connections that a pool opened before the fork are the parent's, too.
            self._pid = os.getpid()
            engine = getattr(self._source, "kw", {}).get("bind", self._source)
            if hasattr(engine, "dispose"):
                getattr(engine, "sync_engine", engine).dispose(close=False)
        return chosen

    async def _aconnect(self) -> Any:
        import psycopg

        return await psycopg.AsyncConnection.connect(self._conninfo, autocommit=True, prepare_threshold=None)


@contextmanager
def transaction(session: Any, seal: Callable[[], None] | None) -> Iterator[None]:
    """One transaction: the block's writes and then those of `seal`; without a seal it is rolled back.

    Raises Fatal when it was ended by a statement: what it had written may have been committed.
    """
    if _is_psycopg(session):
        _check_idle(session)
        with session.transaction(force_rollback=seal is None):
            if seal is None:
                yield
                return
            session.cursor().execute(_MARK)
            try:
                yield
            except Exception as error:
                if _is_at_end(session) or (_can_be_asked(session) and not _is_ours(session)):
                    raise Fatal(ENDED_BY_STATEMENT) from error
                raise
            _check_open(session)
            seal()
        return
    if session.in_transaction():
        raise OutOfPlace(IN_USE)
    begun = session.begin()
    try:
        with _nobody_commits(session), _marking(session, seal is not None) as marked:
            if marked:
                session.exec_driver_sql(_MARK)
            try:
                yield
            except Exception as error:
                if marked and session.get_transaction() is begun and begun.is_active and not _is_ours(session):
                    raise Fatal(ENDED_BY_STATEMENT) from error
                raise
            if seal is not None:
                if hasattr(session, "flush"):
                    session.flush()
                if session.get_transaction() is not begun or not begun.is_active:
                    raise OutOfPlace(ENDED_INSIDE)
                seal()
        (begun.rollback if seal is None else begun.commit)()
    except BaseException:
        session.rollback()
        raise


@asynccontextmanager
async def atransaction(session: Any, seal: Callable[[], Awaitable[None]] | None) -> AsyncIterator[None]:
    """`transaction` for a session or connection that is awaited."""
    if _is_psycopg(session):
        _check_idle(session)
        async with session.transaction(force_rollback=seal is None):
            if seal is None:
                yield
                return
            await session.cursor().execute(_MARK)
            try:
                yield
            except Exception as error:
                if _is_at_end(session) or (_can_be_asked(session) and not await _ais_ours(session)):
                    raise Fatal(ENDED_BY_STATEMENT) from error
                raise
            _check_open(session)
            await seal()
        return
    if session.in_transaction():
        raise OutOfPlace(IN_USE)
    begun = await session.begin()
    try:
        blocking = _blocking(session)
        root = blocking.get_transaction()
        with _nobody_commits(blocking), _marking(blocking, seal is not None) as marked:
            if marked:
                await session.exec_driver_sql(_MARK)
            try:
                yield
            except Exception as error:
                if marked and blocking.get_transaction() is root and begun.is_active and not await _ais_ours(session):
                    raise Fatal(ENDED_BY_STATEMENT) from error
                raise
            if seal is not None:
                if hasattr(session, "flush"):
                    await session.flush()
                if session.get_transaction() is None or not begun.is_active:
                    raise OutOfPlace(ENDED_INSIDE)
                await seal()
        await (begun.rollback if seal is None else begun.commit)()
    except BaseException:
        await session.rollback()
        raise


@contextmanager
def _marking(session: Any, is_wanted: bool) -> Iterator[list[Any]]:
    """What is marked already: a Connection, which the caller must mark now, or nothing yet of a Session.

    A Session is marked when it connects, not before: until then the block may choose the isolation level.
    """
    if not is_wanted or not hasattr(session, "flush"):
        yield [session] if is_wanted else []
        return
    from sqlalchemy import event

    root, marked = session.get_transaction(), list[Any]()

    def mark(_: Any, begun: Any, connection: Any) -> None:
        if begun is root and connection.dialect.name == "postgresql":
            connection.exec_driver_sql(_MARK)
            marked.append(connection)

    event.listen(session, "after_begin", mark)
    try:
        yield marked
    finally:
        event.remove(session, "after_begin", mark)


@contextmanager
def _nobody_commits(session: Any) -> Iterator[None]:
    """Refuse the user's own commit: it would save the writes without their record."""
    from sqlalchemy import event

    name = "before_commit" if hasattr(session, "flush") else "commit"

    def refuse(_: Any) -> None:
        if not session.in_nested_transaction():
            raise OutOfPlace(ENDED_INSIDE)

    event.listen(session, name, refuse)
    try:
        yield
    finally:
        event.remove(session, name, refuse)


def _made(source: Any) -> tuple[Any, bool]:
    """A session or connection from a source, and whether it is ours to close."""
    if hasattr(source, "connect") and hasattr(source, "dispose"):  # Engine, AsyncEngine
        return source.connect(), True
    if callable(source) and not hasattr(source, "execute"):
        return source(), True
    return (source(), False) if hasattr(source, "registry") and callable(source) else (source, False)


def _is_psycopg(session: Any) -> bool:
    psycopg = sys.modules.get("psycopg")
    return psycopg is not None and isinstance(session, psycopg.Connection | psycopg.AsyncConnection)


def _is_awaited(session: Any) -> bool:
    psycopg = sys.modules.get("psycopg")
    if psycopg is not None and isinstance(session, psycopg.AsyncConnection):
        return True
    return hasattr(session, "sync_session") or hasattr(session, "sync_connection")


def _blocking(session: Any) -> Any:
    return getattr(session, "sync_session", None) or session.sync_connection


def _check_idle(connection: Any) -> None:
    import psycopg

    if connection.info.transaction_status not in (
        psycopg.pq.TransactionStatus.IDLE,
        psycopg.pq.TransactionStatus.UNKNOWN,
    ):
        raise OutOfPlace(IN_USE)


def _check_open(connection: Any) -> None:
    """It may have been ended by a statement; then what comes next would be a transaction of its own."""
    if _is_at_end(connection):
        raise Fatal(ENDED_BY_STATEMENT)


def _is_at_end(connection: Any) -> bool:
    import psycopg

    return bool(connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE)


def _can_be_asked(connection: Any) -> bool:
    import psycopg

    return bool(connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS)


def _is_ours(session: Any) -> bool:
    """Whether it is still in the transaction of the block; True when it cannot say."""
    try:
        return bool(_callers_connection.rows(session, _ASK, {}))
    except Exception:  # noqa: BLE001 - after an error Postgres answers no more
        return True


async def _ais_ours(session: Any) -> bool:
    try:
        return bool(await _callers_connection.arows(session, _ASK, {}))
    except Exception:  # noqa: BLE001
        return True
