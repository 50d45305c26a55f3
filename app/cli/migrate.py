"""`celeriac migrate`: bring the database to this version."""

from app.cli.database import settings
from app.cli.output import remark


def migrate() -> None:
    """Bring the database to this version: tables, functions, roles. Safe to run again, and by several at once."""
    import db.migrate

    db.migrate.migrate(settings().database_url)
    remark("the database is up to date")
