"""The documentation says what is there: links lead somewhere, and every command and function is named."""

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer.main

from app.cli.main import application
from app.settings import Settings
from tests.house.tree import ROOT, files

PAGES = [*sorted(ROOT.glob("*.md")), ROOT / "sdk/README.md", *files(ROOT / "docs", "*.md")]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def all_text() -> str:
    return "\n".join(page.read_text() for page in PAGES)


def anchors(page: Path) -> set[str]:
    """The anchors that a Markdown page gets from its headings."""
    headings = re.findall(r"^#+ +(.+?) *$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page: Path) -> list[str]:
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return [link for link in LINK.findall(prose) if "://" not in link and not link.startswith("mailto:")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        file, _, anchor = link.partition("#")
        target = page.parent / file if file else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[str]:
    # By its attribute: typer may bring a click of its own, whose groups are not instances of ours.
    below = getattr(command, "commands", None)
    if below is not None:
        for name, inner in below.items():
            yield from commands(inner, (*words, name))
    else:
        yield " ".join(("celeriac", *words))


def test_every_command_is_documented() -> None:
    text = all_text()
    named = list(commands(typer.main.get_command(application)))
    assert "celeriac tasks list" in named
    undocumented = [name for name in named if name not in text]
    assert undocumented == []


def test_every_setting_is_documented_where_settings_are() -> None:
    text = (ROOT / "docs/operations.md").read_text()
    described = text.partition("\n## Settings\n")[2].partition("\n## ")[0]
    unnamed = [field.name for field in fields(Settings) if f"{field.name.upper()}`" not in described]
    assert unnamed == []


def test_every_sql_function_that_others_may_call_is_documented() -> None:
    text = all_text()
    # What db/grants.sql lets the roles execute; the other functions are the inner parts of these.
    callable_ones = [path for path in files(ROOT / "db/functions", "*.sql") if "security definer" in path.read_text()]
    assert callable_ones
    assert [path.stem for path in callable_ones if not re.search(rf"\b{path.stem}\b", text)] == []


def test_the_readme_names_the_two_commands() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [command for command in ("make demo", "make test") if command not in readme] == []
