"""What is counted and measured, in a registry of this application's own.

Figures of the database (depths, oldest ready, outbox, incidents, workers, snapshots) come from a Survey, taken when
somebody asks and the last one is older than SURVEY_SECONDS; the rest is this process's own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.api.database import Database
from db.errors import Unavailable

SURVEY_SECONDS: Final = 5.0
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

Labelled = Sequence[tuple[tuple[str, ...], float]]


@dataclass(frozen=True)
class Survey:
    """The figures of the database at one moment: values by labels; `up` says whether they could be had."""

    up: bool
    depths: Labelled = ()
    oldest_ready_seconds: Labelled = ()
    outbox: Labelled = ()
    open_incidents: Labelled = ()
    open_instances: Labelled = ()
    live_workers: float = 0
    oldest_snapshot_seconds: float = 0


class Instruments:
    """The counters and histograms of a process, and the collector that brings in the last survey."""

    def __init__(self, waiting: Callable[[], int]) -> None:
        self.registry = CollectorRegistry()
        self.refusals = Counter(
            "celeriac_refusals", "Writes of workers that were refused", ["verb", "code"], registry=self.registry
        )
        self.requests = Histogram(
            "celeriac_request_seconds",
            "Duration of requests; long polls include their wait",
            ["method", "route", "status"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.surveyed = _SurveyCollector(waiting)
        self.registry.register(self.surveyed)


class _SurveyCollector(Collector):
    def __init__(self, waiting: Callable[[], int]) -> None:
        self._waiting = waiting
        self.survey = Survey(up=False)

    def collect(self) -> Iterable[Metric]:
        yield _gauge("celeriac_waiting_polls", "Long polls that wait in this process", (), [((), self._waiting())])
        survey = self.survey
        yield _gauge("celeriac_database_up", "Whether the figures of the database could be had", (), [((), survey.up)])
        if not survey.up:
            return
        yield _gauge("celeriac_tasks", "Open tasks", ("task_type", "state"), survey.depths)
        oldest = survey.oldest_ready_seconds
        yield _gauge("celeriac_oldest_ready_seconds", "Age of the oldest ready task", ("task_type",), oldest)
        yield _gauge("celeriac_outbox_rows", "Rows that must leave Postgres", ("channel", "state"), survey.outbox)
        incidents = survey.open_incidents
        yield _gauge("celeriac_open_incidents", "What a person must look at", ("task_type", "kind"), incidents)
        instances = survey.open_instances
        yield _gauge("celeriac_open_instances", "Processes under way", ("process_key", "status"), instances)
        yield _gauge("celeriac_live_workers", "Workers with a fresh heartbeat", (), [((), survey.live_workers)])
        yield _gauge(
            "celeriac_oldest_snapshot_seconds",
            "Age of the oldest snapshot; an old one keeps dead rows",
            (),
            [((), survey.oldest_snapshot_seconds)],
        )


class Surveyor:
    """Takes a survey at most every SURVEY_SECONDS, however many ask."""

    def __init__(self, take: Callable[[], Awaitable[Survey]]) -> None:
        self._take = take
        self._turn = asyncio.Lock()
        self._taken_at = float("-inf")
        self._last = Survey(up=False)

    async def latest(self) -> Survey:
        async with self._turn:
            if time.monotonic() - self._taken_at > SURVEY_SECONDS:
                try:
                    self._last = await self._take()
                except Unavailable:
                    self._last = Survey(up=False)
                self._taken_at = time.monotonic()
            return self._last


async def take_survey(database: Database) -> Survey:
    """Read the figures from the views; Unavailable when the database is gone."""
    depths = await database.view("select task_type, state, tasks from celeriac.depths")
    oldest = await database.view("select task_type, age_ms from celeriac.oldest_ready")
    outbox = await database.view("select channel, pending, parked from celeriac.outbox_depth")
    incidents = await database.view(
        "select coalesce(task_type, '') as task_type, kind, count(*) as incidents from celeriac.incidents"
        " where resolved_at is null group by 1, 2"
    )
    instances = await database.view(
        "select process_key, status, count(*) as instances from celeriac.instances where ended_at is null group by 1, 2"
    )
    others = (
        await database.view(
            "select (select count(*) from celeriac.live_workers) as workers, h.oldest_snapshot_age_ms as snapshot_ms"
            " from celeriac.health h"
        )
    )[0]
    return Survey(
        up=True,
        depths=[((row.task_type, row.state), row.tasks) for row in depths],
        oldest_ready_seconds=[((row.task_type,), row.age_ms / 1000) for row in oldest],
        outbox=[
            ((row.channel, state), count)
            for row in outbox
            for state, count in (("pending", row.pending), ("parked", row.parked))
        ],
        open_incidents=[((row.task_type, row.kind), row.incidents) for row in incidents],
        open_instances=[((row.process_key, row.status), row.instances) for row in instances],
        live_workers=others.workers,
        oldest_snapshot_seconds=float(others.snapshot_ms or 0) / 1000,
    )


def _gauge(name: str, help_text: str, labels: Sequence[str], values: Iterable[tuple[Sequence[str], float]]) -> Metric:
    family = GaugeMetricFamily(name, help_text, labels=labels)
    for label_values, value in values:
        family.add_metric(label_values, value)
    return family
