"""How long to wait before asking again."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential with full jitter: a random time between 0 and the step, so that many clients do not come at once."""

    first_seconds: float = 0.2
    factor: float = 2.0
    cap_seconds: float = 10.0

    def longest(self, failures: int) -> float:
        """The step after so many failures in a row (1 or more), in seconds."""
        # The exponent is bounded before the power, where that is 1e260: 2.0 ** 2000 raises OverflowError.
        most = 600 / math.log(self.factor) if self.factor > 1 else 0
        return min(self.cap_seconds, self.first_seconds * self.factor ** min(failures - 1, most))

    def pause(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row."""
        return random.uniform(0, self.longest(failures))  # noqa: S311 - spreads load, guards nothing
