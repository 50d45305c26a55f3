"""On what it was measured: figures of two machines must not be compared by accident."""

import os
import platform
import statistics
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

FLUSHES = 50
PACKAGES = ("celeriac-server", "psycopg", "sqlalchemy", "fastapi", "uvicorn", "uvloop", "orjson", "redis")


def describe_machine() -> dict[str, Any]:
    """Processor, memory, system, what a flush to disk takes, and how busy the machine was with other things."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "flush_ms": round(_flush_ms(), 3),
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }


def versions(postgres: str) -> dict[str, str]:
    return {"python": platform.python_version(), "postgres": postgres} | {name: version(name) for name in PACKAGES}


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _flush_ms() -> float:
    """Median of writing a page and flushing it, where the measured Postgres keeps its data."""
    took = []
    with tempfile.TemporaryFile() as file:
        for _ in range(FLUSHES):
            file.write(b"x" * 8192)
            file.flush()
            began = time.perf_counter()
            os.fsync(file.fileno())
            took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)
