"""`celeriac api`, `maintenance`, `beat`, `flower`: each is one server in the foreground, set by CELERIAC_*."""

from app.cli.database import settings
from app.cli.exits import ExitCode, Stop


def api() -> None:
    """Serve the HTTP API. On CELERIAC_HOST:CELERIAC_PORT, by CELERIAC_API_PROCESSES processes."""
    from app.server.serve import serve

    if serve(settings()) != 0:
        raise Stop(ExitCode.FAILED, "the API could not start; its log says why")


def maintenance() -> None:
    """Run the chores. Expired leases, due tasks, the outbox, retention; any number of these may run."""
    from workers.maintenance import run

    run(settings())


def beat() -> None:
    """Tick for the chores. Any number of beats may run; none for a while is harmless."""
    from workers.beat import run

    run(settings())


def flower() -> None:
    """Serve Flower, the view of Celery fleets. On CELERIAC_HOST:CELERIAC_FLOWER_PORT."""
    from workers.flower import run

    run(settings())
