"""What is wrong with a model, or was changed or left out: always with the element and the line, always all of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing about one element. Errors prevent a deployment, warnings do not."""

    severity: Literal["error", "warning"]
    element: str | None
    line: int
    message: str

    def __str__(self) -> str:
        place = f"line {self.line}" + (f", {self.element}" if self.element else "")
        return f"{self.severity}: {place}: {self.message}"


@dataclass
class Report:
    """All findings about a file, in the order of its lines once it is sorted."""

    findings: list[Finding] = field(default_factory=list)

    def error(self, element: str | None, line: int, message: str) -> None:
        self.findings.append(Finding("error", element, line, message))

    def warning(self, element: str | None, line: int, message: str) -> None:
        self.findings.append(Finding("warning", element, line, message))

    @property
    def errors(self) -> list[Finding]:
        return [one for one in self.findings if one.severity == "error"]

    @property
    def warnings(self) -> list[Finding]:
        return [one for one in self.findings if one.severity == "warning"]

    def sort(self) -> None:
        self.findings.sort(key=lambda one: (one.line, one.element or ""))
