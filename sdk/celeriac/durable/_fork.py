"""What becomes of a process that a handler forks: its child ends where the user's code gives it back to us.

The child has a copy of all that its parent holds, the connections among it: what it said there would get into the
middle of what the parent says, and both would wait for each other's answers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

CHILD_OF_A_FORK: Final = 70
"""The status that such a child ends with."""


@contextmanager
def parent_only() -> Iterator[None]:
    """Around code of the user's: whoever leaves it is the process that entered it."""
    pid = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != pid:
            os._exit(CHILD_OF_A_FORK)
