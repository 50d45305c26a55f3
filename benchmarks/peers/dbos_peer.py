"""DBOS Transact: durable workflows on a queue. Usage: dbos_peer.py prepare|enqueue|work URL COUNT NAME noop|steps."""

import sys
import threading

from dbos import DBOS, DBOSClient

verb, url, count, name, kind = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5]
DBOS(
    config={
        "name": "bench",
        "system_database_url": url,
        "run_admin_server": False,
        "log_level": "ERROR",
        "application_version": "1",
        "executor_id": name,
    }
)


@DBOS.workflow()
def noop(number: int) -> dict[str, bool]:
    return {"ok": True}


@DBOS.step()
def add(number: int) -> int:
    return number + 1


@DBOS.workflow()
def steps(number: int) -> int:
    return add(add(add(number)))


if verb == "enqueue":
    # A client: a launched DBOS would begin to work on what it enqueues.
    client = DBOSClient(system_database_url=url)
    for number in range(count):
        client.enqueue({"queue_name": "bench", "workflow_name": kind}, number)
    client.destroy()
else:
    DBOS.launch()
    DBOS.register_queue("bench")
    if verb == "work":
        threading.Event().wait()
    DBOS.destroy()
