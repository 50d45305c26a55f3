"""Advancing instances from the command line: what has just happened to them is worked in at once, if it can be."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from app.cli.output import remark

MOST_ADVANCES = 100

if TYPE_CHECKING:
    from sqlalchemy import Connection


def advance_now(conn: "Connection", instances: Iterable[object]) -> None:
    """Each in transactions of its own. What fails is left to the chore: it is in the database already."""
    from app.engine import advance
    from db import call

    waiting = [str(instance) for instance in instances]
    with conn.engine.connect().execution_options(isolation_level="READ COMMITTED") as moving:
        for _ in range(MOST_ADVANCES):
            if not waiting:
                return
            instance = waiting.pop()
            try:
                with call.refusals(), moving.begin():
                    done = advance(moving, instance)
            except Exception as error:  # noqa: BLE001 - whatever it is, the command itself has done its work
                remark(f"instance {instance} is left to the maintenance: {type(error).__name__}")
            else:
                waiting += done.reached if done else ()
                waiting += [instance] if done and done.more else []
