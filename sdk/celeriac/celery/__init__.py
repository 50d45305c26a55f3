"""Durable tasks in your own Celery app: Postgres holds them, the workers you have run them.

    from celeriac.celery import TaskContext, install, task

    @task("media.copy", lease=30)
    def copy(ctx: TaskContext) -> dict[str, Any]:
        return {"bytes": copy_file(ctx.variables["source"], ctx.variables["target"])}

    install(app, database_url="postgresql://…", tasks=[copy])

Needs `celeriac[celery]`. What a handler may raise (Retry, Fatal) and how tasks are enqueued is in `celeriac`.
"""

from celeriac.celery._fleet import Fleet
from celeriac.celery._install import install
from celeriac.context import TaskContext
from celeriac.durable._declaration import DurableTask, RetryPolicy, task

__all__ = ["DurableTask", "Fleet", "RetryPolicy", "TaskContext", "install", "task"]
