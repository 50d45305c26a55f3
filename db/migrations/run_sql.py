"""A migration is a SQL file; its Python file only gives it a number."""

from pathlib import Path

from alembic import op

from db.sql_file import run_file

VERSIONS = Path(__file__).parent / "versions"


def run_sql(name: str) -> None:
    """Runs db/migrations/versions/<name> in the transaction of the migration."""
    run_file(op.get_bind(), VERSIONS / name)
