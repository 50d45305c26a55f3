"""Advancing instances at once: after the commit of what has happened to them, in a transaction of their own.

What happened is a fact in the database by then. So whatever goes wrong here costs time only: the chore `advance` works
it in. A process advances an instance once at a time; what comes meanwhile is for the one at it, which looks again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from app.api.announcer import Announcer
from app.api.database import Database
from app.engine import Advanced, aadvance
from db import call
from db.errors import NotFound, Unavailable

ADVANCE_SECONDS: Final = 2.0
"""How long a request advances for. What it leaves is for the chore."""

log = logging.getLogger("celeriac.instances")


class Advancer:
    """Advances instances and says which task types have new work."""

    def __init__(self, database: Database, announcer: Announcer) -> None:
        self._database = database
        self._announcer = announcer
        self._again: dict[str, bool] = {}

    async def advance(self, instance_ids: Iterable[object]) -> None:
        """Work in what has happened to these, and to those that they reach. Never raises: what fails is logged."""
        waiting = list(dict.fromkeys(str(one) for one in instance_ids if one is not None))
        if not waiting:
            return
        stop_at = asyncio.get_running_loop().time() + ADVANCE_SECONDS
        while waiting and asyncio.get_running_loop().time() < stop_at:
            waiting += await self._advance(waiting.pop(0), stop_at)

    async def _advance(self, instance: str, stop_at: float) -> list[str]:
        if instance in self._again:
            self._again[instance] = True
            return []
        reached: list[str] = []
        self._again[instance] = True
        try:
            while self._again[instance]:
                self._again[instance] = False
                done = await self._once(instance)
                if done is not None:
                    reached += done.reached
                    self._announcer.announce(done.task_types)
                    # A model may go round by commit points for ever.
                    if done.more and asyncio.get_running_loop().time() < stop_at:
                        self._again[instance] = True
        except NotFound:
            log.debug("instance %s was deleted meanwhile", instance)
        except Unavailable as busy:
            log.warning("instance %s is left to the chore: %s", instance, busy)
        except Exception:  # logged; the fact is there, and the chore tries again
            log.exception("instance %s is left to the chore", instance)
        finally:
            del self._again[instance]
        return reached

    async def _once(self, instance: str) -> Advanced | None:
        async with self._database.connection() as connection:
            await connection.execution_options(isolation_level="READ COMMITTED")
            with call.refusals():
                async with connection.begin():
                    return await aadvance(connection, instance)
