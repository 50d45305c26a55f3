"""The clock that leases are measured with."""

from __future__ import annotations

import time

if hasattr(time, "CLOCK_BOOTTIME"):

    def now() -> float:
        """Seconds on a clock that never jumps and goes on while the machine sleeps (Linux)."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:

    def now() -> float:
        """Seconds on a clock that never jumps; whether it goes on while the machine sleeps depends on the system."""
        return time.monotonic()
