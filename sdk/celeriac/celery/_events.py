"""What Flower, `celery events` and the like see of durable tasks: Celery's own events, one set a task.

They carry the task's own id and its type as its name. Nobody's work waits for them: they are gathered for a moment and
sent by a thread of its own, many in one message, and dropped when the broker does not take them. Like Celery's, they
are sent only while somebody watches (`-E`, `celery control enable_events`, a running Flower).
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, Final

from celeriac import _clock
from celeriac._lease import Lease
from celeriac.celery._board import Board
from celeriac.celery._masking import shown, without_user
from celeriac.errors import Canceled
from celeriac.values import Completion, Failure, Thrown

log = logging.getLogger("celeriac.fleet")

GATHER_SECONDS: Final = 0.25
MOST: Final = 20_000
"""Events that are kept when the broker is slow; further ones are dropped."""
A_MESSAGE: Final = 500

Event = tuple[str, dict[str, Any]]


class Events:
    """The events of one process. `enabled` is the user's word, whatever Celery says."""

    def __init__(self, app: Any, board: Board, enabled: bool) -> None:
        self._app = app
        self._board = board
        self._enabled = enabled
        self._changed = threading.Condition()
        self._gathered: list[Event] = []
        self._thread: threading.Thread | None = None
        self._sending = threading.Lock()
        self._connection: Any = None
        self._node = ""

    @property
    def wanted(self) -> bool:
        return self._enabled and self._board.watched

    def began(self, lease: Lease, node: str) -> float:
        """An attempt begins. The answer is for `ended`: when it began."""
        if self.wanted:
            task = lease.task
            self._gather(
                node,
                "task-received",
                task.task_id,
                name=task.task_type,
                args="()",
                kwargs=shown(task.variables),
                retries=task.attempt - 1,
                eta=None,
                expires=None,
                root_id=task.task_id,
                parent_id=None,
            )
            self._gather(node, "task-started", task.task_id)
        return _clock.now()

    def ended(self, lease: Lease, node: str, began_at: float, outcome: Completion | Failure | None, state: str) -> None:
        """An attempt has come to its end: what it came to, and the state that the task is in now."""
        if not self.wanted:
            return
        task_id = lease.task.task_id
        if isinstance(outcome, Completion | Thrown):
            result = shown(dict(outcome.variables) if outcome.variables is not None else None)
            self._gather(node, "task-succeeded", task_id, result=result, runtime=_clock.now() - began_at)
        elif isinstance(outcome, Failure):
            self.failed(task_id, node, outcome.error, state)
        elif state == "FAILED":  # all is undone; why it had to be, the failure before it has said
            self._gather(node, "task-failed", task_id)
        elif state == "CANCELED" or isinstance(lease.ended, Canceled):
            self._gather(node, "task-revoked", task_id, terminated=True, signum=None, expired=False)
        elif lease.ended is None:
            self._gather(node, "task-waiting", task_id)

    def failed(self, task_id: str, node: str, error: str, state: str) -> None:
        """An attempt has failed, and the task is in this state now."""
        if self.wanted:
            kind = "task-failed" if state == "FAILED" else "task-retried"
            first, _, rest = without_user(error).partition("\n")
            self._gather(node, kind, task_id, exception=first[:500], traceback=rest[:4000])

    def close(self, seconds: float = 2.0) -> None:
        """Send what has been gathered, for so long at most: the process ends."""
        thread = threading.Thread(target=self._send, name="celeriac-events-end", daemon=True)
        thread.start()
        thread.join(seconds)

    def _gather(self, node: str, kind: str, task_id: str, **fields: Any) -> None:
        with self._changed:
            self._node = node
            if len(self._gathered) < MOST:
                self._gathered.append((kind, {"uuid": task_id, "timestamp": time.time(), **fields}))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="celeriac-events", daemon=True)
                self._thread.start()
            elif len(self._gathered) == 1:
                self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._gathered:
                    self._changed.wait()
            time.sleep(GATHER_SECONDS)
            self._send()

    def _send(self) -> None:
        with self._sending:
            with self._changed:
                gathered, self._gathered = self._gathered, []
            if not gathered:
                return
            try:
                self._publish(gathered)
            except Exception as error:  # noqa: BLE001 - a transport raises whatever it meets
                log.info("%d events of tasks were not sent: %s: %s", len(gathered), type(error).__name__, error)
                self._connection = None

    def _publish(self, gathered: list[Event]) -> None:
        if self._connection is None:
            self._connection = self._app.connection_for_write()
            self._connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0, interval_max=0)
        dispatcher = self._app.events.Dispatcher(
            self._connection,
            self._node,
            buffer_while_offline=False,
            buffer_group=frozenset(["task"]),
            buffer_limit=A_MESSAGE,
        )
        for kind, fields in gathered:
            dispatcher.send(kind, **fields)
        dispatcher.flush()
        dispatcher.close()
