"""A Celery project made durable by five lines."""

import difflib

from tests.examples import programs

NAME = "plain-celery"


def test_five_lines_make_it_durable() -> None:
    before, after = ((programs.EXAMPLES / NAME / version / "shop.py").read_text() for version in ("before", "after"))
    changes = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm=""))[2:]
    assert len([line for line in changes if line.startswith("+")]) <= 5
    assert len([line for line in changes if line.startswith("-")]) <= 5


def test_what_its_page_shows_is_the_difference() -> None:
    before, after = ((programs.EXAMPLES / NAME / version / "shop.py").read_text() for version in ("before", "after"))
    page = (programs.EXAMPLES / NAME / "README.md").read_text()
    changes = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    assert [line for line in list(changes)[2:] if line[:2] != "@@" and line not in page.splitlines()] == []


def test_its_command_shows_what_each_version_loses() -> None:
    said = programs.run(NAME)
    figures = {line.split()[0]: [int(word) for word in line.split()[1:]] for line in said.splitlines()[-2:]}
    assert figures["before"][2] > 0
    assert figures["after"][2] == 0
