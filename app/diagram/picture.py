"""What a picture is made of: boxes for nodes, lines for flows, in pixels from the top left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Box:
    """Where a node is."""

    x: float
    y: float
    width: float
    height: float

    @property
    def centre(self) -> Point:
        return self.x + self.width / 2, self.y + self.height / 2


@dataclass(frozen=True, slots=True)
class Picture:
    """The boxes of nodes and the corners of flows, by id."""

    boxes: Mapping[str, Box]
    lines: Mapping[str, Sequence[Point]]

    @property
    def frame(self) -> Box:
        """What holds all of it."""
        corners = [(box.x, box.y) for box in self.boxes.values()]
        corners += [(box.x + box.width, box.y + box.height) for box in self.boxes.values()]
        corners += [point for line in self.lines.values() for point in line]
        if not corners:
            return Box(0, 0, 100, 100)
        left, top = min(x for x, _ in corners), min(y for _, y in corners)
        return Box(left, top, max(x for x, _ in corners) - left, max(y for _, y in corners) - top)
