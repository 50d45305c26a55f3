"""Alembic's entry: the connection is the one `db.migrate` has opened and locked."""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, version_table="revision", version_table_schema="celeriac")
with context.begin_transaction():
    context.run_migrations()
