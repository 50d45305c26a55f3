"""The HTTP API as methods: `Client` blocks, `AsyncClient` is awaited.

The calls themselves are in `_requests.py`, once. A method here is a builder with a sender in front of it, so both
clients have the same methods, arguments and results.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx

from celeriac import _json, _requests
from celeriac._backoff import Backoff
from celeriac._link import Link, Patience, lost
from celeriac._requests import Request
from celeriac.errors import CeleriacError

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(build: Callable[P, Request[T]]) -> Callable[Concatenate[Client, P], T]:
    @wraps(build)
    def call(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.send(build(*args, **kwargs))

    return call


def _awaited(build: Callable[P, Request[T]]) -> Callable[Concatenate[AsyncClient, P], Awaitable[T]]:
    @wraps(build)
    def call(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        return self.send(build(*args, **kwargs))

    return call


class _Client:
    """What both clients are made with."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        patience_seconds: float = 30.0,
        longest_pause_seconds: float = 10.0,
        connect_seconds: float = 5.0,
        parse_float: Callable[[str], Any] = float,
        verify: ssl.SSLContext | bool = True,
        transport: httpx.BaseTransport | httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Connects at the first call, not here.

        `url` is where the server is (https://…, with or without a path in front of /v1), `key` an API key or a JWT.
        `patience_seconds` is how long a call goes on trying while the server cannot be reached or is overloaded; it
        only tries again where that cannot do the work twice. 0 means one try. The pauses between tries grow up to
        `longest_pause_seconds`. `parse_float` reads fractions (`Decimal` keeps every digit). `verify` and `transport`
        are httpx's.
        """
        decoder, backoff = _json.decoder(parse_float), Backoff(cap_seconds=longest_pause_seconds)
        self._use(Link(url, key, patience_seconds, backoff, connect_seconds, decoder, verify, transport))

    @classmethod
    def over(cls, link: Link) -> Self:
        """A client with the settings of another one."""
        client = cls.__new__(cls)
        client._use(link)
        return client

    def _use(self, link: Link) -> None:
        raise NotImplementedError


class Client(_Client):
    """The API for blocking code. Threads may share it. Close it, or use it in a `with` block."""

    link: Link
    _http: httpx.Client

    def _use(self, link: Link) -> None:
        self.link = link
        self._http = httpx.Client(**link.options())

    def send(
        self, request: Request[T], *, patience_seconds: float | None = None, answer_seconds: float | None = None
    ) -> T:
        """Make a call; tries again where that is safe, within the patience."""
        patience = Patience(request, self.link.backoff, _given(patience_seconds, self.link.patience_seconds))
        while True:
            try:
                return self.link.conclude(request, self._exchange(request, answer_seconds))
            except CeleriacError as error:
                time.sleep(patience.pause_after(error))

    def _exchange(self, request: Request[Any], answer_seconds: float | None) -> httpx.Response:
        try:
            return self._http.request(**self.link.arguments(request, answer_seconds))
        except httpx.RequestError as error:
            raise lost(error) from error

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    enqueue_task = _blocking(_requests.enqueue_task)
    enqueue_tasks = _blocking(_requests.enqueue_tasks)
    get_task = _blocking(_requests.get_task)
    list_tasks = _blocking(_requests.list_tasks)
    list_steps = _blocking(_requests.list_steps)
    cancel_task = _blocking(_requests.cancel_task)
    redrive_task = _blocking(_requests.redrive_task)
    redrive_tasks = _blocking(_requests.redrive_tasks)
    send_signal = _blocking(_requests.send_signal)
    get_incident = _blocking(_requests.get_incident)
    list_incidents = _blocking(_requests.list_incidents)
    resolve_incident = _blocking(_requests.resolve_incident)
    get_operation = _blocking(_requests.get_operation)
    list_operations = _blocking(_requests.list_operations)
    resolve_operation = _blocking(_requests.resolve_operation)
    fetch_tasks = _blocking(_requests.fetch_tasks)
    complete_task = _blocking(_requests.complete_task)
    complete_tasks = _blocking(_requests.complete_tasks)
    fail_task = _blocking(_requests.fail_task)
    fail_tasks = _blocking(_requests.fail_tasks)
    extend_lease = _blocking(_requests.extend_lease)
    release_task = _blocking(_requests.release_task)
    register_worker = _blocking(_requests.register_worker)
    register_task_type = _blocking(_requests.register_task_type)
    list_task_types = _blocking(_requests.list_task_types)
    put_schedule = _blocking(_requests.put_schedule)
    get_schedule = _blocking(_requests.get_schedule)
    list_schedules = _blocking(_requests.list_schedules)
    pause_schedule = _blocking(_requests.pause_schedule)
    resume_schedule = _blocking(_requests.resume_schedule)
    delete_schedule = _blocking(_requests.delete_schedule)
    list_workers = _blocking(_requests.list_workers)
    throw_bpmn_error = _blocking(_requests.throw_bpmn_error)
    deploy_models = _blocking(_requests.deploy_models)
    get_definition = _blocking(_requests.get_definition)
    list_definitions = _blocking(_requests.list_definitions)
    start_instance = _blocking(_requests.start_instance)
    get_instance = _blocking(_requests.get_instance)
    list_instances = _blocking(_requests.list_instances)
    get_history = _blocking(_requests.get_history)
    get_diagram = _blocking(_requests.get_diagram)
    cancel_instance = _blocking(_requests.cancel_instance)
    suspend_instance = _blocking(_requests.suspend_instance)
    migrate_instance = _blocking(_requests.migrate_instance)
    resume_instance = _blocking(_requests.resume_instance)
    set_variables = _blocking(_requests.set_variables)
    complete_token = _blocking(_requests.complete_token)
    send_message = _blocking(_requests.send_message)
    send_process_signal = _blocking(_requests.send_process_signal)


class AsyncClient(_Client):
    """The API for asyncio. Belongs to one event loop. Close it with `aclose`, or use it in an `async with` block."""

    link: Link
    _http: httpx.AsyncClient

    def _use(self, link: Link) -> None:
        self.link = link
        self._http = httpx.AsyncClient(**link.options())

    async def send(
        self, request: Request[T], *, patience_seconds: float | None = None, answer_seconds: float | None = None
    ) -> T:
        """Make a call; tries again where that is safe, within the patience."""
        patience = Patience(request, self.link.backoff, _given(patience_seconds, self.link.patience_seconds))
        while True:
            try:
                return self.link.conclude(request, await self._exchange(request, answer_seconds))
            except CeleriacError as error:
                await asyncio.sleep(patience.pause_after(error))

    async def _exchange(self, request: Request[Any], answer_seconds: float | None) -> httpx.Response:
        try:
            return await self._http.request(**self.link.arguments(request, answer_seconds))
        except httpx.RequestError as error:
            raise lost(error) from error

    async def aclose(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    enqueue_task = _awaited(_requests.enqueue_task)
    enqueue_tasks = _awaited(_requests.enqueue_tasks)
    get_task = _awaited(_requests.get_task)
    list_tasks = _awaited(_requests.list_tasks)
    list_steps = _awaited(_requests.list_steps)
    cancel_task = _awaited(_requests.cancel_task)
    redrive_task = _awaited(_requests.redrive_task)
    redrive_tasks = _awaited(_requests.redrive_tasks)
    send_signal = _awaited(_requests.send_signal)
    get_incident = _awaited(_requests.get_incident)
    list_incidents = _awaited(_requests.list_incidents)
    resolve_incident = _awaited(_requests.resolve_incident)
    get_operation = _awaited(_requests.get_operation)
    list_operations = _awaited(_requests.list_operations)
    resolve_operation = _awaited(_requests.resolve_operation)
    fetch_tasks = _awaited(_requests.fetch_tasks)
    complete_task = _awaited(_requests.complete_task)
    complete_tasks = _awaited(_requests.complete_tasks)
    fail_task = _awaited(_requests.fail_task)
    fail_tasks = _awaited(_requests.fail_tasks)
    extend_lease = _awaited(_requests.extend_lease)
    release_task = _awaited(_requests.release_task)
    register_worker = _awaited(_requests.register_worker)
    register_task_type = _awaited(_requests.register_task_type)
    list_task_types = _awaited(_requests.list_task_types)
    put_schedule = _awaited(_requests.put_schedule)
    get_schedule = _awaited(_requests.get_schedule)
    list_schedules = _awaited(_requests.list_schedules)
    pause_schedule = _awaited(_requests.pause_schedule)
    resume_schedule = _awaited(_requests.resume_schedule)
    delete_schedule = _awaited(_requests.delete_schedule)
    list_workers = _awaited(_requests.list_workers)
    throw_bpmn_error = _awaited(_requests.throw_bpmn_error)
    deploy_models = _awaited(_requests.deploy_models)
    get_definition = _awaited(_requests.get_definition)
    list_definitions = _awaited(_requests.list_definitions)
    start_instance = _awaited(_requests.start_instance)
    get_instance = _awaited(_requests.get_instance)
    list_instances = _awaited(_requests.list_instances)
    get_history = _awaited(_requests.get_history)
    get_diagram = _awaited(_requests.get_diagram)
    cancel_instance = _awaited(_requests.cancel_instance)
    suspend_instance = _awaited(_requests.suspend_instance)
    migrate_instance = _awaited(_requests.migrate_instance)
    resume_instance = _awaited(_requests.resume_instance)
    set_variables = _awaited(_requests.set_variables)
    complete_token = _awaited(_requests.complete_token)
    send_message = _awaited(_requests.send_message)
    send_process_signal = _awaited(_requests.send_process_signal)


def _given(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value
