"""A run as JSON: the figures, and all that they depend on."""

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, Measured
from benchmarks.machine import versions
from benchmarks.servers import POSTGRES_SETTINGS

HERE = Path(__file__).parent
RESULTS = HERE / "results"
QUICK_RESULTS = RESULTS / "quick"


@dataclass(frozen=True)
class Run:
    """One benchmark on one machine at one time."""

    name: str
    question: str
    quick: bool
    began_at: datetime
    seconds: float
    machine: dict[str, Any]
    measured: Measured


def write(run: Run, folder: Path) -> Path:
    """Write `<folder>/<name>.json`, in place of the last run's."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{run.name}.json"
    path.write_text(json.dumps(document(run), indent=1, ensure_ascii=False) + "\n")
    return path


def document(run: Run) -> dict[str, Any]:
    return {
        "name": run.name,
        "question": run.question,
        "quick": run.quick,
        "date": run.began_at.astimezone(UTC).isoformat(timespec="seconds"),
        "seconds": round(run.seconds, 1),
        "machine": run.machine,
        "versions": versions(run.measured.postgres),
        "settings": {"benchmark": run.measured.settings, "postgres": POSTGRES_SETTINGS},
        "figures": [_figure(figure) for figure in run.measured.figures],
    }


def _figure(figure: Figure) -> dict[str, Any]:
    return {
        "name": figure.name,
        "value": round(figure.value, 4),
        "unit": figure.unit,
        "goal": asdict(figure.goal) if figure.goal else None,
        "verdict": figure.verdict,
        "details": figure.details,
    }
