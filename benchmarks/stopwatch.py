"""How long a block took."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Took:
    """`ms` is set when the block is over."""

    ms: float = 0.0


@contextmanager
def milliseconds() -> Iterator[Took]:
    took = Took()
    began = time.perf_counter()
    yield took
    took.ms = (time.perf_counter() - began) * 1000
