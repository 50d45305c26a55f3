"""The way of a worker in any language: JSON over HTTP on one kept connection."""

import itertools
from collections.abc import Sequence

import orjson

from benchmarks.callers import LEASE_MS, RESULT, Held, Refused, completion, encoded, new_task
from benchmarks.http_connection import HttpConnection
from benchmarks.servers import Api


class HttpCaller:
    """One worker with one connection."""

    def __init__(self, api: Api, worker_id: str, task_type: str) -> None:
        self._connection = HttpConnection(api.port, api.key)
        self._worker_id = worker_id
        self._task_type = task_type
        self._numbers = itertools.count()

    def enqueue(self, count: int) -> None:
        tasks = [new_task(self._task_type, next(self._numbers)) for _ in range(count)]
        if count == 1:
            self._connection.post("/v1/tasks", encoded(tasks[0]))
        else:
            self._connection.post("/v1/tasks/batch", encoded({"tasks": tasks}))

    def fetch(self, count: int, wait_ms: int = 0) -> Sequence[Held]:
        body = fetch_body(self._worker_id, self._task_type, count, wait_ms)
        return read_leases(self._connection.post("/v1/external-tasks/fetch-and-lock", body))

    def complete(self, held: Sequence[Held]) -> None:
        if len(held) == 1:
            body = {"worker_id": self._worker_id, "fencing_token": held[0].fencing_token, "variables": RESULT}
            self._connection.post(f"/v1/external-tasks/{held[0].task_id}/complete", encoded(body))
            return
        asked = {"worker_id": self._worker_id, "tasks": [completion(one) for one in held]}
        results = orjson.loads(self._connection.post("/v1/external-tasks/complete", encoded(asked)))["results"]
        if any(result["code"] is not None for result in results):
            raise Refused(f"some completions of a batch were refused: {results[:3]}")

    def close(self) -> None:
        self._connection.close()


def fetch_body(worker_id: str, task_type: str, count: int, wait_ms: int) -> bytes:
    return encoded(
        {
            "worker_id": worker_id,
            "task_types": [task_type],
            "max_tasks": count,
            "lock_duration_ms": LEASE_MS,
            "wait_ms": wait_ms,
        }
    )


def read_leases(answer: bytes) -> Sequence[Held]:
    return [Held(task["task_id"], task["fencing_token"]) for task in orjson.loads(answer)]
