"""Tests of durable tasks without a broker and without waiting: a database a test, a clock to move, a worker to crash.

pytest finds the fixtures by itself. What they are made of is here, for other test runners and for trying things out.
Needs `celeriac[testing]`, and the `celeriac` command of the server for its Postgres.
"""

from celeriac.testing._clock import Clock
from celeriac.testing._crash import Crash, Crashed, Point, crash_at, every_crash
from celeriac.testing._runner import Runner, RunnerMaker, StepRun, TaskRun
from celeriac.testing._server import DatabaseServer, copied

__all__ = [
    "Clock",
    "Crash",
    "Crashed",
    "DatabaseServer",
    "Point",
    "Runner",
    "RunnerMaker",
    "StepRun",
    "TaskRun",
    "copied",
    "crash_at",
    "every_crash",
]
