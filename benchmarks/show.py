"""The figures of a run as a table for people."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

COLOURS = {"met": "green", "missed": "red", "no goal": "dim"}


def show(document: Mapping[str, Any], console: Console) -> None:
    """`document` is what record.document made."""
    grid = Table(title=document["question"], title_justify="left", box=None, pad_edge=False, header_style="bold")
    grid.add_column(document["name"], overflow="fold")
    grid.add_column("goal", justify="right")
    grid.add_column("measured", justify="right")
    grid.add_column("verdict")
    for figure in document["figures"]:
        verdict = figure["verdict"]
        grid.add_row(
            Text(figure["name"]),
            goal_text(figure),
            measured_text(figure),
            Text("" if verdict == "no goal" else verdict, style=COLOURS[verdict]),
        )
    console.print(grid)
    console.print()


def goal_text(figure: Mapping[str, Any]) -> str:
    goal = figure["goal"]
    return "" if goal is None else f"{goal['sign']} {number(goal['limit'])} {figure['unit']}".strip()


def measured_text(figure: Mapping[str, Any]) -> str:
    p95 = figure["details"].get("p95")
    tail = "" if p95 is None or figure["goal"] else f" (p95 {number(p95)})"
    return f"{number(figure['value'])} {figure['unit']}".strip() + tail


def number(value: float) -> str:
    """Three digits that count, which is more than a repeat of the run would confirm."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"
