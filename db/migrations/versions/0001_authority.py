"""The authority: task, queue, idempotency, history, outbox, workers, keys."""

from db.migrations.run_sql import run_sql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0001_authority.sql")
