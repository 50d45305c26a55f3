"""An event loop for one handler, in whatever thread it is carried; it ends with the handler."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

from celeriac._lease import Lease
from celeriac.errors import OutOfPlace


def run(work: Coroutine[Any, Any, Any], lease: Lease) -> Any:
    """What the coroutine returns or raises; it is cancelled when the handler should stop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        work.close()
        raise OutOfPlace("an async handler cannot run where an event loop runs already (or in a pool of greenlets)")
    result, error = asyncio.run(_guarded(work, lease))
    if error is not None:
        raise error
    return result


async def _guarded(work: Coroutine[Any, Any, Any], lease: Lease) -> tuple[Any, BaseException | None]:
    """Its result or its error: as a value, since a SystemExit that leaves a task would tear the loop down."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def cancel() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended long before the lease
            loop.call_soon_threadsafe(task.cancel)

    lease.when_stopped(cancel)
    try:
        return await work, None
    except BaseException as error:  # noqa: BLE001
        return None, error
