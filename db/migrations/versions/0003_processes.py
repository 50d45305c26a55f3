"""Processes: deployed models, their instances, and where each of them stands."""

from db.migrations.run_sql import run_sql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0003_processes.sql")
