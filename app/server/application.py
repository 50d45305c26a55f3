"""The application: its parts are opened when it starts and closed when it stops; nothing lives at module level."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from fastapi import FastAPI

from app.api import (
    external_tasks,
    health,
    incidents,
    keys,
    messages,
    metrics,
    openapi,
    operations,
    problems,
    process_definitions,
    process_instances,
    schedules,
    signals,
    steps,
    task_types,
    tasks,
    workers,
)
from app.api.advancing import Advancer
from app.api.announcer import Announcer
from app.api.authentication import Authenticator, key_finder
from app.api.database import Database
from app.api.door import Parts
from app.api.health import Readiness, check_database
from app.api.hub import Hub
from app.api.instruments import Instruments, Surveyor, take_survey
from app.api.jwt_auth import TokenVerifier, configured_verifier
from app.api.redis_check import RedisCheck
from app.bell import Bell
from app.camunda import face
from app.camunda.external_task_fetch import PARTY
from app.server.access_log import AccessLog
from app.settings import Settings
from db.engine import async_engine
from db.migrate import code_hash

log = logging.getLogger(__name__)

RESTART_SECONDS = 1.0


def create(settings: Settings) -> FastAPI:
    """The API for these settings. ConfigurationError when its JWT settings cannot be used."""
    tokens = configured_verifier(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with _opened(settings, tokens) as app.state.parts:
            yield

    app = FastAPI(
        title="Celeriac",
        version="1",
        summary="Durable tasks on Postgres: Postgres decides, Celery carries, Redis only rings the bell.",
        lifespan=lifespan,
        # Their pages load scripts from a foreign host.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False},
    )
    for router in (
        external_tasks.router,
        tasks.router,
        steps.router,
        signals.router,
        incidents.router,
        operations.router,
        process_definitions.router,
        process_instances.router,
        messages.router,
        task_types.router,
        schedules.router,
        workers.router,
        keys.router,
        health.router,
        metrics.router_for(settings.metrics_public),
        *face.ROUTERS,
    ):
        app.router.routes.extend(router.routes)
    problems.install(app)
    openapi.install(app)
    app.add_middleware(AccessLog)
    app.add_middleware(face.EnginePaths)
    return app


@asynccontextmanager
async def _opened(settings: Settings, tokens: TokenVerifier | None) -> AsyncIterator[Parts]:
    async with AsyncExitStack() as stack:
        engine = async_engine(settings.database_url, pool_size=settings.database_pool)
        stack.push_async_callback(engine.dispose)
        bell = Bell(settings.redis_url)
        stack.push_async_callback(bell.aclose)
        redis_check = RedisCheck(settings.redis_url)
        stack.push_async_callback(redis_check.aclose)
        database = Database(engine)
        hub = Hub(_ready_types(database), most_of={PARTY: settings.camunda_polls})
        announcer = Announcer(hub, bell)
        release = code_hash()
        parts = Parts(
            settings=settings,
            database=database,
            authenticator=Authenticator(key_finder(database), tokens),
            hub=hub,
            announcer=announcer,
            advancer=Advancer(database, announcer),
            instruments=Instruments(lambda: hub.waiting),
            readiness=Readiness(lambda: check_database(database, release), redis_check.check),
            surveyor=Surveyor(lambda: take_survey(database)),
        )
        await parts.readiness.check()
        for work in (hub.run, parts.announcer.run, parts.announcer.listen, parts.readiness.run):
            stack.push_async_callback(_stop, asyncio.create_task(_keep_running(work)))
        yield parts
        hub.close()


def _ready_types(database: Database) -> Callable[[Sequence[str]], Awaitable[Mapping[str, int]]]:
    async def ready_types(task_types: Sequence[str]) -> Mapping[str, int]:
        rows = await database.rows("ready_types", task_types=list(task_types))
        return {row.task_type: row.ready for row in rows}

    return ready_types


async def _keep_running(work: Callable[[], Awaitable[None]]) -> None:
    """Run what must go on as long as the process: a fault is logged and the work begun again."""
    while True:
        try:
            await work()
            return
        except Exception:  # logged; a hub that stopped would leave every poll asleep
            log.exception("%s stopped and is started again", work)
            await asyncio.sleep(RESTART_SECONDS)


async def _stop(task: asyncio.Task[None]) -> None:
    """Cancel until it is over: a cancellation that meets the end of a time-out inside the Redis client can get lost."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=0.1)
