"""A PgBouncer in transaction mode, where the machine has one installed."""

import os
import pwd
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from app.dev.ports import free_port
from app.dev.processes import Process

# Debian keeps it where a user's PATH does not look.
PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
SERVER_CONNECTIONS = 5


@contextmanager
def running_pgbouncer(database_url: str, postgres_port: int, folder: Path) -> Iterator[str]:
    """Put one in front of a database; yields the URL through it. `folder` is one that other users may enter."""
    port, name = free_port(), database_url.rsplit("/", 1)[1]
    config = folder / "pgbouncer.ini"
    config.write_text(f"""
[databases]
{name} = host=127.0.0.1 port={postgres_port} dbname={name} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {SERVER_CONNECTIONS}
max_client_conn = 200
""")
    # It refuses to be root.
    user = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
    url = f"postgresql://anyone@127.0.0.1:{port}/{name}"
    with Process([str(PGBOUNCER), str(config)], folder / "pgbouncer.log", name="pgbouncer", user=user) as process:
        process.wait_for(lambda: _answers(url), 10, what="taking connections")
        yield url


def _answers(url: str) -> bool:
    try:
        with psycopg.connect(url, connect_timeout=1, prepare_threshold=None):
            return True
    except psycopg.OperationalError:
        return False
