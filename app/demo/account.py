"""The end: compares the copy with the source on its own, and says what happened.

Nothing here trusts a worker: both sides are walked and hashed again. A file is *lost* when its copy is missing or
different, when its task is not COMPLETED, when the result on record is not that of the copy, or when the fleet's
business row is missing. It is *doubled* also by a second row.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.demo.copying import remove_unfinished
from app.demo.evidence import BEGUN, REFUSED, accepted_twice, read_diaries
from app.demo.orders import FLEET_TYPE, Order, list_orders
from app.demo.source import sha256_of

if TYPE_CHECKING:
    from sqlalchemy import Connection


@dataclass(frozen=True)
class Account:
    """What `--json` prints."""

    files: int
    completed: int
    lost: int
    doubled: int
    leases_lost: int
    stale_writes_refused: int
    seconds: float

    @property
    def holds(self) -> bool:
        """What the demo promises: nothing lost, nothing doubled."""
        return self.lost == 0 and self.doubled == 0

    def as_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Findings:
    """What the comparison found, by name, so that a person can look."""

    lost: Sequence[str]
    doubled: Sequence[str]
    begun: int
    unfinished: int


def compare(conn: "Connection", source: Path, target: Path, diaries: Path) -> Findings:
    """Hash both sides, ask both witnesses (app/demo/evidence.py), tidy up after killed workers."""
    orders = list_orders(conn)
    results = completed_results(conn)
    lines = list(read_diaries(diaries))
    assets = rows_of_assets(conn)
    twice = (
        completed_twice(conn) | accepted_twice(lines) | {task_id for task_id, rows in assets.items() if len(rows) > 1}
    )
    return Findings(
        lost=[
            order.path
            for order in orders
            if is_lost(order, source, target, results.get(order.task_id))
            or (order.task_type == FLEET_TYPE and results.get(order.task_id) not in assets[order.task_id])
        ],
        doubled=[order.path for order in orders if order.task_id in twice],
        begun=sum(line.what == BEGUN for line in lines),
        unfinished=remove_unfinished(target),
    )


def is_lost(order: Order, source: Path, target: Path, result: dict[str, Any] | None) -> bool:
    copy, original = target / order.path, source / order.path
    if result is None or not copy.is_file() or not original.is_file():
        return True
    digest = sha256_of(copy)
    return digest != sha256_of(original) or result != {"size": copy.stat().st_size, "sha256": digest}


def rows_of_assets(conn: "Connection") -> dict[str, list[dict[str, Any]]]:
    """Task id to the business rows that the fleet has committed for it."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for task_id, size, sha256 in conn.exec_driver_sql("select task_id::text, size, sha256 from demo.asset"):
        rows[task_id].append({"size": size, "sha256": sha256})
    return rows


def completed_results(conn: "Connection") -> dict[str, dict[str, Any]]:
    """Task id to result of every completed copy."""
    rows = conn.exec_driver_sql(
        """
        select o.task_id::text, d.result from demo.copy_order o
          join celeriac.task_detail d on d.task_id = o.task_id and d.state = 'COMPLETED'
        """
    )
    return {task_id: json.loads(result) for task_id, result in rows}


def completed_twice(conn: "Connection") -> set[str]:
    """The tasks that the demo's own trigger saw completed more than once."""
    rows = conn.exec_driver_sql("select task_id::text from demo.completion group by task_id having count(*) > 1")
    return {task_id for (task_id,) in rows}


def draw_up(conn: "Connection", found: Findings, diaries: Path, seconds: float) -> Account:
    """The figures. Refusals are counted by the workers that were refused: no crash of Postgres loses or adds one."""
    files = conn.exec_driver_sql("select count(*) from demo.copy_order").scalar_one()
    leases_lost = conn.exec_driver_sql("select count(*) from celeriac.task_timeline where kind = 'lease_lost'")
    return Account(
        files=files,
        completed=len(completed_results(conn)),
        lost=len(found.lost),
        doubled=len(found.doubled),
        leases_lost=leases_lost.scalar_one(),
        stale_writes_refused=sum(line.what == REFUSED for line in read_diaries(diaries)),
        seconds=round(seconds, 1),
    )
