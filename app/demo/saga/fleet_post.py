"""Where a Celery worker of the saga works: all it is told, in variables of its environment."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

PREFIX = "DEMO_"


@dataclass(frozen=True)
class TillPost:
    """One worker's name, its servers, its diaries' folder, and by how many ms every task is slowed down."""

    worker: str
    broker_url: str
    database_url: str
    diaries: str
    pause_ms: str

    def to_env(self) -> dict[str, str]:
        return {f"{PREFIX}{name.upper()}": value for name, value in asdict(self).items()}

    @classmethod
    def from_env(cls) -> Self:
        """What `to_env` has written into the environment of this process."""
        return cls(**{name: os.environ[f"{PREFIX}{name.upper()}"] for name in cls.__dataclass_fields__})

    @property
    def diary_of_this_process(self) -> Path:
        return Path(self.diaries) / f"{self.worker}.{os.getpid()}.diary"
