"""Durable tasks: steps, operations, waits, signals, children, compensation, incidents, schedules, limits."""

from db.migrations.run_sql import run_sql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0002_durable_tasks.sql")
