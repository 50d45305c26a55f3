"""One migrated database for a whole module: what the proof does in it, it undoes itself."""

import itertools
from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import Connection

from app.dev.postgres import EmbeddedPostgres
from db.engine import sync_engine

# So that a failed assert of theirs shows its values.
pytest.register_assert_rewrite("tests.proof.machine", "tests.proof.model", "tests.proof.invariants")
numbers = itertools.count(1)


@pytest.fixture(scope="module")
def proof_url(postgres_server: EmbeddedPostgres, template_database: str) -> Iterator[str]:
    """A migrated database, as its owner."""
    name = f"proof_test_{next(numbers)}"
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        connection.execute(f"create database {name} template {template_database} strategy file_copy")
    yield postgres_server.url(name)
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        connection.execute(f"drop database {name} with (force)")


@pytest.fixture(scope="module")
def proof_connection(proof_url: str) -> Iterator[Connection]:
    engine = sync_engine(proof_url, pool_size=1)
    with engine.connect() as connection:
        yield connection
    engine.dispose()
