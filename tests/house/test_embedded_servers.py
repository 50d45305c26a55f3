"""The servers that the tests, the demo and `celeriac up` stand on."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from app.dev.postgres import EmbeddedPostgres
from app.dev.postgres_binaries import PostgresNotFound, binaries_for_all, find_binaries, reachable_by_all
from app.dev.processes import ProcessEnded
from app.dev.valkey import EmbeddedValkey
from app.dev.waiting import wait_until

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has a user to drop to")


@pytest.fixture
def server() -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(durable=False) as server:
        yield server


def ask(server: EmbeddedPostgres, statement: str, role: str | None = None) -> object:
    with psycopg.connect(server.url(role=role), autocommit=True) as conn:
        cursor = conn.execute(statement)  # type: ignore[arg-type]
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


@pytest.mark.parametrize(("version", "major"), [(16, 16), (18, 18)])
def test_each_version_of_the_wheel_runs(version: int, major: int) -> None:
    with EmbeddedPostgres(version=version, durable=False) as server:  # type: ignore[arg-type]
        assert int(str(ask(server, "show server_version_num"))) // 10_000 == major


def test_the_server_listens_on_loopback_only(server: EmbeddedPostgres) -> None:
    listening = [c.laddr for c in psutil.Process(server.pid).net_connections() if c.status == psutil.CONN_LISTEN]
    assert [(address.ip, address.port) for address in listening] == [("127.0.0.1", server.port)]


def test_a_url_can_carry_a_role(server: EmbeddedPostgres) -> None:
    ask(server, "create role some_role")
    assert ask(server, "select current_user", role="some_role") == "some_role"


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_committed_rows_outlive_a_restart_on_the_same_port(server: EmbeddedPostgres, mode: str) -> None:
    ask(server, "create table kept as select 7 as answer")
    port = server.port
    server.restart(mode)  # type: ignore[arg-type]
    assert (server.port, ask(server, "select answer from kept")) == (port, 7)


def test_committed_rows_outlive_a_kill(server: EmbeddedPostgres) -> None:
    ask(server, "create table kept as select 7 as answer")
    backends = psutil.Process(server.pid).children()
    server.kill()
    assert not any(is_alive(backend) for backend in backends)
    server.start()
    assert ask(server, "select answer from kept") == 7


def test_a_frozen_server_keeps_its_connections_and_goes_on_when_thawed(server: EmbeddedPostgres) -> None:
    with psycopg.connect(server.url(), autocommit=True) as conn:
        server.freeze()
        pid = conn.info.backend_pid
        wait_until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
        server.thaw()
        assert conn.execute("select 7").fetchone() == (7,)


def test_a_frozen_server_can_be_stopped(server: EmbeddedPostgres) -> None:
    server.freeze()
    server.stop()
    assert not server.is_running


def test_data_in_a_named_folder_is_found_again(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / "data", durable=False) as server:
        ask(server, "create table kept as select 7 as answer")
        place = server.data_dir
    try:
        with EmbeddedPostgres(tmp_path / "data", durable=False) as server:
            assert ask(server, "select answer from kept") == 7
    finally:
        remove_tree(place)


def test_two_servers_on_one_folder_are_refused(server: EmbeddedPostgres) -> None:
    with pytest.raises(ProcessEnded, match=r"postmaster\.pid"):
        EmbeddedPostgres(server.data_dir, durable=False).start()
    assert ask(server, "select 7") == 7


@as_root
def test_folders_above_the_data_keep_their_rights(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with EmbeddedPostgres(closed / "data", durable=False) as server:
        place = server.data_dir
        assert ask(server, "select 7") == 7
    try:
        assert (closed.stat().st_mode & 0o777, (closed / "data").resolve()) == (0o700, place)
    finally:
        remove_tree(place)


@pytest.fixture
def closed_binaries(tmp_path: Path) -> Iterator[Path]:
    """The Postgres of the wheel as it lies in an environment below somebody's closed home folder."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    binaries = find_binaries(18)
    package = binaries.parents[1]
    (closed / package.name).mkdir()
    for part in (binaries.parent, package.with_name(f"{package.name}.libs")):
        subprocess.run(["cp", "-r", str(part), str(closed / part.relative_to(package.parent))], check=True)
    copied = closed / binaries.relative_to(package.parent)
    yield copied
    remove_tree(binaries_for_all(copied).parents[2])


@as_root
def test_binaries_in_a_closed_folder_are_copied_once_and_run(
    closed_binaries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = binaries_for_all(closed_binaries)
    assert reachable_by_all(copy / "postgres")
    assert binaries_for_all(closed_binaries) == copy
    monkeypatch.setattr("app.dev.postgres.find_binaries", lambda _version: closed_binaries)
    with EmbeddedPostgres(durable=False) as server:
        assert Path(psutil.Process(server.pid).exe()).parent == copy


@as_root
def test_a_copy_made_by_somebody_else_is_refused(closed_binaries: Path) -> None:
    copy = binaries_for_all(closed_binaries).parents[2]
    os.chown(copy, 12345, 12345)
    try:
        with pytest.raises(PostgresNotFound, match="not made by this user"):
            binaries_for_all(closed_binaries)
    finally:
        os.chown(copy, 0, 0)


ORPHAN = """
import sys, time
from app.dev.postgres import EmbeddedPostgres
from app.dev.valkey import EmbeddedValkey
postgres, valkey = EmbeddedPostgres(durable=False).start(), EmbeddedValkey().start()
print(postgres.pid, valkey.pid, postgres.data_dir.parent, valkey.data_dir, flush=True)
time.sleep(600)
"""


def test_servers_die_with_a_parent_that_is_killed_and_so_do_their_temporary_folders() -> None:
    with subprocess.Popen([sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        postgres_pid, valkey_pid, *folders = parent.stdout.readline().split()
        servers = [psutil.Process(int(postgres_pid)), psutil.Process(int(valkey_pid))]
        family = servers + servers[0].children()
        parent.kill()
        wait_until(lambda: not any(is_alive(member) for member in family))
        wait_until(lambda: not any(Path(folder).exists() for folder in folders))


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def remove_tree(folder: Path) -> None:
    subprocess.run(["rm", "-rf", str(folder)], check=True)


def test_valkey_is_empty_after_a_flush_and_after_a_restart() -> None:
    with EmbeddedValkey() as valkey:
        port = valkey.port
        for clear in (valkey.flush, valkey.restart):
            with redis.Redis.from_url(valkey.url()) as client:
                client.set("key", "value")
            clear()
            with redis.Redis.from_url(valkey.url()) as client:
                assert client.dbsize() == 0
        assert valkey.port == port


def test_a_frozen_valkey_answers_again_when_thawed() -> None:
    with EmbeddedValkey() as valkey, redis.Redis.from_url(valkey.url(), socket_timeout=5) as client:
        client.set("key", "value")
        valkey.freeze()
        wait_until(lambda: psutil.Process(valkey.pid).status() == psutil.STATUS_STOPPED)
        valkey.thaw()
        assert client.get("key") == b"value"
