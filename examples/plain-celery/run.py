"""The same trouble for the shop before and after: the worker is killed, and Redis loses all it has."""

import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import redis

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
ORDERS = 8


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="celeriac-shop-") as state:
        Path(state).chmod(0o711)
        with servers(Path(state)) as urls:
            packed = {
                version: trouble(version, urls, Path(state) / f"{version}.log") for version in ("before", "after")
            }
    print(f"\n{'':10}{'ordered':>10}{'packed':>10}{'lost':>10}")
    for version, count in packed.items():
        print(f"{version:10}{ORDERS:>10}{count:>10}{ORDERS - count:>10}")
    return 0 if packed["after"] == ORDERS else 1


def trouble(version: str, urls: dict[str, str], log: Path) -> int:
    """Take orders, kill the worker in the middle of one, empty Redis, start another worker. How many were packed?"""
    print(f"\n{version}: {ORDERS} orders", flush=True)
    with psycopg.connect(urls["SHOP_DATABASE_URL"], autocommit=True) as database:
        database.execute("drop table if exists shop_order")

        def packed() -> int:
            [count] = database.execute("select count(label) from shop_order").fetchone()
            return count

        order(version, urls)
        with worker(version, urls, log) as first:
            until(lambda: packed() >= 3)
            os.killpg(first.pid, signal.SIGKILL)
        print(f"  worker killed after {packed()} labels", flush=True)
        broker = redis.Redis.from_url(urls["SHOP_BROKER_URL"])
        broker.flushall()
        print("  Redis flushed", flush=True)
        with worker(version, urls, log):
            # What is in Postgres comes back within its lease; of what was in Redis alone, nothing will ever come.
            until(lambda: packed() == ORDERS, seconds=60 if version == "after" else 5)
        return packed()


def order(version: str, urls: dict[str, str]) -> None:
    place = (
        f"import shop; shop.Model.metadata.create_all(shop.engine); [shop.place(n, 'a book') for n in range({ORDERS})]"
    )
    subprocess.run([sys.executable, "-c", place], cwd=HERE / version, env=os.environ | urls, check=True)


@contextmanager
def worker(version: str, urls: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`celery -A shop worker`, as ever."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            [BIN / "celery", "-A", "shop", "worker", "--concurrency=1"],
            cwd=HERE / version,
            env=os.environ | urls,
            start_new_session=True,
            stdout=output,
            stderr=output,
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


@contextmanager
def servers(state: Path) -> Iterator[dict[str, str]]:
    """`celeriac up`: a Postgres, a Redis, and Celeriac's own servers. It prints where they are."""
    log = state / "up.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [BIN / "celeriac", "up", "--no-flower", "--state", state / "servers"],
            env={name: value for name, value in os.environ.items() if not name.startswith("CELERIAC_")}
            | {"CELERIAC_PORT": str(free_port())},
            stdout=output,
            stderr=output,
        )
    try:
        until(lambda: "API: http" in log.read_text() or process.poll() is not None, seconds=60)
        [line] = [line for line in log.read_text().splitlines() if line.startswith("for other commands: export ")]
        told = dict(word.split("=", 1) for word in shlex.split(line.partition("export ")[2]))
        yield {"SHOP_DATABASE_URL": told["CELERIAC_DATABASE_URL"], "SHOP_BROKER_URL": told["CELERIAC_REDIS_URL"]}
    finally:
        process.terminate()
        process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Wait for a condition, and go on without it when the time is over."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
