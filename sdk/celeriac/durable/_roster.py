"""Which task types a fleet runs, in which versions, on which queues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from celeriac.durable._declaration import DurableTask


class Roster:
    """The declared tasks of one app; raises ValueError for declarations that contradict each other,
    TypeError for handlers that cannot be called or whose annotations cannot be read."""

    def __init__(self, tasks: Iterable[DurableTask]) -> None:
        self._tasks: dict[tuple[str, int], DurableTask] = {}
        for task in tasks:
            task.check()
            if (task.task_type, task.version) in self._tasks:
                raise ValueError(f"version {task.version} of {task.task_type!r} is declared twice")
            self._tasks[task.task_type, task.version] = task
        if not self._tasks:
            raise ValueError("tasks must name at least one task")
        self.newest: Mapping[str, DurableTask] = {
            name: self._tasks[name, version] for name, version in sorted(self._tasks)
        }
        """The newest version of each type, which says what its settings are."""
        for task in self._tasks.values():
            if task.queue != self.newest[task.task_type].queue:
                raise ValueError(f"the versions of {task.task_type!r} are on different queues")

    def task(self, task_type: str, version: int) -> DurableTask:
        """The declaration that a fetched task belongs to."""
        return self._tasks[task_type, version]

    def versions(self, task_types: Iterable[str]) -> dict[str, list[int]]:
        """What is asked for in a fetch: old code never sees a newer version, nor new code an older one."""
        wanted = set(task_types)
        versions: dict[str, list[int]] = {task_type: [] for task_type in sorted(wanted)}
        for task_type, version in sorted(self._tasks):
            if task_type in wanted:
                versions[task_type].append(version)
        return versions

    def queue(self, task_type: str, default: str) -> str | None:
        """The queue of a type; None for a type that is not ours."""
        newest = self.newest.get(task_type)
        return None if newest is None else newest.queue or default

    def of_queue(self, queue: str, default: str) -> Sequence[str]:
        """All types whose rings come through this queue."""
        return [task_type for task_type in self.newest if self.queue(task_type, default) == queue]
