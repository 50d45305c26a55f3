"""Deploys a model of Camunda 7, starts orders, and lets two workers of Camunda 7 do them: all over /engine-rest."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import clients
import httpx

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
ORDERS = {"A-1": ("book", 20), "A-2": ("lamp", 80), "A-3": ("yacht", 250_000), "A-4": ("unicorn", 5)}


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="celeriac-orders-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        try:
            workers = {
                "stock": clients.python(HERE / "stock.py"),
                "card": clients.javascript(HERE / "card.js", folder),
            }
        except clients.Missing as missing:
            print(missing, file=sys.stderr)
            return 2
        with ExitStack() as running:
            url = running.enter_context(server(folder))
            engine = running.enter_context(httpx.Client(base_url=url))
            deploy(engine)
            started = {key: start(engine, key, item, price) for key, (item, price) in ORDERS.items()}
            for worker, command in workers.items():
                running.enter_context(process(command, folder / f"{worker}.log", {"ENGINE_REST": url}))
            until(lambda: all(instance(engine, one)["endTime"] for one in started.values()))
            for key, one in started.items():
                tell(engine, key, one)
    return 0


def deploy(engine: httpx.Client) -> None:
    files = {"order.bpmn": ("order.bpmn", (HERE / "order.bpmn").read_bytes())}
    deployed = engine.post("/deployment/create", data={"deployment-name": "orders"}, files=files).raise_for_status()
    for definition in deployed.json()["deployedProcessDefinitions"].values():
        print(f"deployed {definition['key']}, version {definition['version']}", flush=True)


def start(engine: httpx.Client, key: str, item: str, price: int) -> str:
    variables = {"item": {"value": item}, "price": {"value": price}}
    sent = {"businessKey": key, "variables": variables}
    return str(engine.post("/process-definition/key/order/start", json=sent).raise_for_status().json()["id"])


def instance(engine: httpx.Client, one: str) -> dict[str, str]:
    told: dict[str, str] = engine.get(f"/history/process-instance/{one}").raise_for_status().json()
    return told


def tell(engine: httpx.Client, key: str, one: str) -> None:
    asked = {"processInstanceId": one}
    passed = engine.get("/history/activity-instance", params=asked).raise_for_status().json()
    tries = engine.get("/history/external-task-log", params=asked | {"failureLog": "true"}).raise_for_status().json()
    known = engine.get("/history/variable-instance", params=asked).raise_for_status().json()
    ends = [activity["activityName"] for activity in passed if activity["activityType"] == "noneEndEvent"]
    told = {variable["name"]: variable for variable in known}
    print(f"{key} ({ORDERS[key][0]}): {instance(engine, one)['state']} at {', '.join(ends)!r}", flush=True)
    for failure in tries:
        print(f"  {failure['activityId']} failed: {failure['errorMessage']}, {failure['retries']} more tries")
    if "reason" in told:
        print(f"  because {told['reason']['value']}")
    if "receipt" in told:
        receipt = engine.get(f"/history/variable-instance/{told['receipt']['id']}/data").raise_for_status()
        print(f"  receipt: {receipt.text.strip()}")


@contextmanager
def server(state: Path) -> Iterator[str]:
    """`celeriac up` with the door of Camunda open: where workers and tools find it."""
    port = free_port()
    settings = {"CELERIAC_PORT": str(port), "CELERIAC_CAMUNDA_OPEN": "true"}
    command = [str(BIN / "celeriac"), "up", "--no-flower", "--state", str(state / "servers")]
    log = state / "up.log"
    with process(command, log, settings) as up:
        until(lambda: "API: http" in log.read_text() or up.poll() is not None)
        if up.poll() is not None:
            raise RuntimeError(log.read_text())
        yield f"http://127.0.0.1:{port}/engine-rest"


@contextmanager
def process(command: list[str], log: Path, settings: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    around = {name: value for name, value in os.environ.items() if not name.startswith("CELERIAC_")}
    with log.open("wb") as output:
        started = subprocess.Popen(command, cwd=log.parent, env=around | settings, stdout=output, stderr=output)
    try:
        yield started
    finally:
        started.terminate()
        started.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(condition: Callable[[], object], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the orders are still open")
        time.sleep(0.1)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started is stopped on the way out
    sys.exit(main())
