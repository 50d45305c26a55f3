"""Durable tasks in your own Celery app: Postgres holds them, the workers you have run them.

    from celeriac import Context, task
    from celeriac.celery import install

    @task("media.copy", lease=30)
    def copy(ctx: Context, order: Order) -> dict[str, Any]:
        return {"bytes": ctx.step("copy", copy_file, order.source, order.target)}

    install(app, database_url="postgresql://…", tasks=[copy])

Needs `celeriac[celery]`. How tasks are written and enqueued is in `celeriac`.
"""

from celeriac.celery._fleet import Fleet
from celeriac.celery._install import install

__all__ = ["Fleet", "install"]
