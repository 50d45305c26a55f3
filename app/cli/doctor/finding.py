"""What a check can find, and what a check is."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from app.settings import Settings


class Severity(StrEnum):
    PROBLEM = "problem"
    """Work is lost, wrong or stands still, or will be."""
    NOTE = "note"
    """Worth knowing; nothing has to be done."""


@dataclass(frozen=True)
class Finding:
    """One thing to know: what it is, where, and how to mend it."""

    check: str
    what: str
    where: str
    fix: str
    severity: Severity = Severity.PROBLEM

    def as_json(self) -> dict[str, str]:
        return asdict(self)

    def as_text(self) -> str:
        indent = "\n" + " " * 9
        return (
            f"{self.severity.upper():<8} {self.check}: {self.what}{indent}where: {self.where}{indent}mend:  {self.fix}"
        )


DatabaseCheck = Callable[["Connection", "Settings"], list[Finding]]
