"""migrate: from nothing, again, by several at once, as a plain owner, and never in part."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from app.dev.postgres import EmbeddedPostgres
from db import migrate as migration
from db.migrate import HERE, code_hash, migrate

# Everything that a migrate makes, by kind, name, body or definition, and rights.
CONTENT = """
select 'function', p.oid::regprocedure::text, md5(p.prosrc), p.proacl::text from pg_proc p
 where p.pronamespace = 'celeriac'::regnamespace
union all
select c.relkind::text, c.relname, md5(coalesce(pg_get_viewdef(case c.relkind when 'v' then c.oid end),
       (select string_agg(a.attname || format_type(a.atttypid, a.atttypmod), ',' order by a.attnum)
          from pg_attribute a where a.attrelid = c.oid and a.attnum > 0))), c.relacl::text
  from pg_class c where c.relnamespace = 'celeriac'::regnamespace
union all
select 'constraint', conname, pg_get_constraintdef(oid), null from pg_constraint
 where connamespace = 'celeriac'::regnamespace
order by 1, 2, 3"""


CARELESS = """
create or replace function celeriac.may_touch(task_type text, only_types text[]) returns boolean
language sql as 'select true'"""


def content(url: str) -> list[tuple[str, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(CONTENT).fetchall()


def run(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)


def start_migrate(url: str) -> subprocess.Popen[str]:
    program = "import sys; from db.migrate import migrate; migrate(sys.argv[1])"
    return subprocess.Popen([sys.executable, "-c", program, url], stderr=subprocess.PIPE, text=True)


def succeed(migrates: list[subprocess.Popen[str]]) -> None:
    errors = [process.communicate(timeout=60)[1] for process in migrates]
    assert [process.returncode for process in migrates] == [0] * len(migrates), errors


@pytest.fixture
def second_empty_database_url(postgres: EmbeddedPostgres) -> Iterator[str]:
    run(postgres.url(), "create database second_of_migrate")
    yield postgres.url("second_of_migrate")
    run(postgres.url(), "drop database second_of_migrate with (force)")


@pytest.fixture
def own_roles(own_server: EmbeddedPostgres) -> EmbeddedPostgres:
    """A server where nothing has been made yet: roles belong to the whole server."""
    return own_server


@pytest.fixture(scope="module")
def own_server(postgres_server: EmbeddedPostgres) -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(version=postgres_server.version, durable=False) as server:
        yield server


def test_from_nothing_and_twice_it_is_the_same(empty_database_url: str) -> None:
    migrate(empty_database_url)
    first = content(empty_database_url)
    assert len(first) > 100
    migrate(empty_database_url)
    assert content(empty_database_url) == first


def test_it_notes_what_it_loaded(empty_database_url: str) -> None:
    migrate(empty_database_url)
    with psycopg.connect(empty_database_url) as connection:
        assert connection.execute("select code_hash from celeriac.health").fetchall() == [(code_hash(),)]


def test_a_migrate_keeps_what_is_stored(empty_database_url: str) -> None:
    migrate(empty_database_url)
    run(empty_database_url, """select celeriac.enqueue_tasks('[{"task_type": "mail", "variables": {"n": 1}}]')""")
    migrate(empty_database_url)
    with psycopg.connect(empty_database_url) as connection:
        assert connection.execute("select task_type, state from celeriac.task_list").fetchall() == [("mail", "READY")]


def test_functions_and_views_are_put_right_again(empty_database_url: str) -> None:
    migrate(empty_database_url)
    first = content(empty_database_url)
    run(empty_database_url, "drop view celeriac.depths; create view celeriac.depths as select 1 as one")
    run(empty_database_url, CARELESS)
    run(
        empty_database_url,
        "grant select on celeriac.task to public; grant execute on function celeriac.refuse to celeriac_api",
    )
    migrate(empty_database_url)
    assert [row[:3] for row in content(empty_database_url)] == [row[:3] for row in first]
    assert content(empty_database_url) == first


def test_five_at_once_take_turns(empty_database_url: str) -> None:
    succeed([start_migrate(empty_database_url) for _ in range(5)])
    first = content(empty_database_url)
    migrate(empty_database_url)
    assert content(empty_database_url) == first


def test_two_databases_of_one_server_at_once_share_the_roles(own_roles: EmbeddedPostgres) -> None:
    """Roles belong to the whole server; the lock to a database."""
    names = ["one", "two"]
    for name in names:
        run(own_roles.url(), f"create database {name}")
    succeed([start_migrate(own_roles.url(name)) for name in names])
    assert content(own_roles.url("one")) == content(own_roles.url("two"))


def test_an_owner_who_is_no_superuser_can_migrate(own_roles: EmbeddedPostgres) -> None:
    """With CREATEROLE where the roles are missing; without it where they exist."""
    for name, rights in (("maker", "createrole"), ("plain", "nocreaterole")):
        run(own_roles.url(), f"create role {name} login {rights}")
        run(own_roles.url(), f"create database of_{name} owner {name}")
        url = own_roles.url(f"of_{name}").replace("postgres@", f"{name}@")
        migrate(url)
        migrate(url)
        run(url, """select celeriac.enqueue_tasks('[{"task_type": "mail"}]')""")
        run(f"{url}?options={quote('-crole=' + name)}", "select * from celeriac.maintain_history(0)")


def test_without_the_right_to_make_roles_it_says_so_and_leaves_nothing(postgres_server: EmbeddedPostgres) -> None:
    with EmbeddedPostgres(version=postgres_server.version, durable=False) as server:
        run(server.url(), "create role plain login")
        run(server.url(), "create database of_plain owner plain")
        url = server.url("of_plain").replace("postgres@", "plain@")
        with pytest.raises(Exception, match="permission denied to create role"):
            migrate(url)
        with psycopg.connect(url) as connection:
            assert connection.execute("select from pg_namespace where nspname = 'celeriac'").fetchall() == []


def test_a_file_that_fails_leaves_all_as_it_was(
    empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(empty_database_url)
    before = content(empty_database_url)
    copy = tmp_path / "db"
    shutil.copytree(HERE, copy)
    changed = copy / "functions/door/may_touch.sql"
    changed.write_text(changed.read_text().replace("only_types is null", "only_types is not null"))
    (copy / "functions/worker/zz_broken.sql").write_text("create function celeriac.zz_broken() returns nothing;")
    monkeypatch.setattr(migration, "HERE", copy)
    with pytest.raises(Exception, match="no language specified"):
        migrate(empty_database_url)
    assert content(empty_database_url) == before
    with psycopg.connect(empty_database_url) as connection:
        assert connection.execute("select code_hash = %s from celeriac.health", [code_hash()]).fetchall() == [(False,)]


def test_a_first_migrate_that_fails_leaves_nothing(
    empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "db"
    shutil.copytree(HERE, copy)
    (copy / "grants.sql").write_text("select 1/0")
    monkeypatch.setattr(migration, "HERE", copy)
    with pytest.raises(Exception, match="division by zero"):
        migrate(empty_database_url)
    with psycopg.connect(empty_database_url) as connection:
        assert connection.execute("select from pg_namespace where nspname = 'celeriac'").fetchall() == []


def test_there_is_one_head() -> None:
    config = Config()
    config.set_main_option("script_location", str(HERE / "migrations"))
    assert len(ScriptDirectory.from_config(config).get_heads()) == 1
