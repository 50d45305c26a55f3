"""A RabbitMQ of our own, where the machine has one installed."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import kombu

from app.dev.ports import free_port
from app.dev.processes import Process

PLACES = ("/usr/lib/rabbitmq/bin", "/usr/local/sbin", "/opt/homebrew/sbin")


def find_rabbit() -> Path | None:
    """The server's own start script: Debian's wrapper in PATH would change the user and the folders."""
    found = [Path(place) / "rabbitmq-server" for place in PLACES if (Path(place) / "rabbitmq-server").exists()]
    return found[0] if found and shutil.which("erl") and shutil.which("epmd") else None


@contextmanager
def running_rabbit(script: Path, folder: Path) -> Iterator[str]:
    """Start it with an empty folder on free ports; yields its URL. Nothing of it is left afterwards."""
    port, names = free_port(), free_port()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "ERL_EPMD_PORT": str(names),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"celeriac{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_LOGS": "-",
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_CONFIG_FILE": str(folder / "none"),
    }
    url = f"amqp://guest:guest@127.0.0.1:{port}//"
    # Erlang would start this by itself, as a daemon that outlives us.
    epmd = Process(["epmd", "-port", str(names), "-address", "127.0.0.1"], folder / "epmd.log", env=environment)
    with epmd, Process([script], folder / "rabbit.log", name="rabbitmq", env=environment, cwd=folder) as server:
        server.wait_for(lambda: _answers(url), 60, what="answering")
        yield url


def _answers(url: str) -> bool:
    try:
        with kombu.Connection(url, connect_timeout=2) as connection:
            connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0, interval_max=0)
        return True
    except Exception:
        return False
