"""Signs of life: what maintenance and beat leave behind each second, and what a health check reads.

The sign is a file with the reading of the monotonic clock, which all processes of a machine share and nobody sets. A
sign from the future is one from before a reboot. It says that the process goes round, not that Postgres or Redis are
well: restarting a process does not heal those, so a check that turned red for them would only add restarts.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from app.settings import Settings

FRESH_SECONDS: Final = 15.0
MAINTENANCE: Final = "maintenance"
BEAT: Final = "beat"


def check_maintenance(settings: Settings) -> bool:
    """Whether a maintenance worker of this machine (or container) went round within FRESH_SECONDS."""
    return _is_fresh(settings, MAINTENANCE)


def check_beat(settings: Settings) -> bool:
    """Whether a beat of this machine (or container) went round within FRESH_SECONDS."""
    return _is_fresh(settings, BEAT)


def leave_sign(settings: Settings, name: str) -> None:
    """Say that `name` is alive now. Raises OSError when the state folder cannot be written."""
    file = _file(settings, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    # Replaced, so that a reader never sees half a number; by a file of this process, as two may share the folder.
    fresh = file.with_suffix(f".{os.getpid()}")
    fresh.write_text(repr(time.monotonic()))
    fresh.replace(file)


def _is_fresh(settings: Settings, name: str) -> bool:
    try:
        left_at = float(_file(settings, name).read_text())
    except (OSError, ValueError):
        return False
    return 0 <= time.monotonic() - left_at <= FRESH_SECONDS


def _file(settings: Settings, name: str) -> Path:
    return Path(settings.state_dir) / f"{name}.alive"
