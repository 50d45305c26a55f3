"""Where a Celery worker of the demo works: all it is told, in variables of its environment."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

PREFIX = "DEMO_"


@dataclass(frozen=True)
class FleetPost:
    """One worker's name, its servers, its folders, and by how many ms every copy is slowed down."""

    worker: str
    broker_url: str
    database_url: str
    source: Path
    target: Path
    diaries: Path
    pause_ms: int

    def to_env(self) -> dict[str, str]:
        return {f"{PREFIX}{name.upper()}": str(value) for name, value in asdict(self).items()}

    @classmethod
    def from_env(cls) -> Self:
        """What `to_env` has written into the environment of this process."""
        told = {
            name.removeprefix(PREFIX).lower(): value for name, value in os.environ.items() if name.startswith(PREFIX)
        }
        folders = {name: Path(told[name]) for name in ("source", "target", "diaries")}
        return cls(**{**told, **folders, "pause_ms": int(told["pause_ms"])})  # type: ignore[arg-type]
