"""The Camunda 7 face: what its rules of locks, retries and typed variables need to know beyond the native ones."""

from db.migrations.run_sql import run_sql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0004_camunda.sql")
