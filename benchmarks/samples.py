"""From samples to figures, in ways that a noisy neighbour moves little."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

Cell = TypeVar("Cell")


def median(samples: Sequence[float]) -> float:
    return statistics.median(samples)


def percentile(samples: Sequence[float], percent: float) -> float:
    """The smallest sample that `percent` of all samples do not exceed (nearest rank: a value that really occurred)."""
    ranked = sorted(samples)
    rank = -(-len(ranked) * percent // 100)
    return ranked[max(0, int(rank) - 1)]


def spread(samples: Sequence[float]) -> Mapping[str, Any]:
    """How the samples lie, for the details of a figure; the unit is the samples' own."""
    return {
        "samples": len(samples),
        "min": round(min(samples), 4),
        "p50": round(median(samples), 4),
        "p95": round(percentile(samples, 95), 4),
        "p99": round(percentile(samples, 99), 4),
        "max": round(max(samples), 4),
    }


def interleaved(cells: Sequence[Cell], rounds: int) -> Iterator[Cell]:
    """Every cell once a round, every other round backwards: noise and drift meet all of them alike."""
    for number in range(rounds):
        yield from cells if number % 2 == 0 else reversed(cells)
