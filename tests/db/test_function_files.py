"""The files of db/functions: one function each, told in its first line, and its body holds when it is looked at."""

import re
from pathlib import Path

import pytest

from db.migrate import HERE
from db.sql_file import run_file
from tests.db.clerk import Clerk

FILES = sorted((HERE / "functions").rglob("*.sql"))
CREATE = re.compile(r"^create (?:or replace )?function celeriac\.(\w+)", re.MULTILINE)
every_file = pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])


@every_file
def test_a_file_holds_the_function_of_its_name_and_says_what_it_does(file: Path) -> None:
    content = file.read_text()
    assert CREATE.findall(content) == [file.stem]
    assert re.match(rf"-- {file.stem}: \S", content)


def test_no_two_files_have_one_name() -> None:
    names = [file.stem for file in FILES]
    assert sorted(set(names)) == sorted(names)


def test_the_database_holds_these_functions_and_no_others(clerk: Clerk) -> None:
    rows = clerk.query("select proname from pg_proc where pronamespace = 'celeriac'::regnamespace order by 1")
    assert [row["proname"] for row in rows] == sorted(file.stem for file in FILES)


def test_every_body_is_valid_now_that_all_others_are_there(clerk: Clerk) -> None:
    """A migrate checks no bodies, since they name each other in any order."""
    clerk.run("set check_function_bodies = on")
    for file in FILES:
        run_file(clerk.conn, file)


def test_nothing_depends_on_notifications_or_on_the_session(clerk: Clerk) -> None:
    """Cases B49, B50: no NOTIFY that could fail a commit, and nothing that a transaction pooler would lose."""
    for file in FILES:
        code = re.sub(r"--.*", "", file.read_text())
        assert not re.search(
            r"\b(pg_notify|notify|listen|pg_advisory_lock|set_config|declare \w+ cursor|temp table)\b", code, re.I
        ), file


def test_what_serves_callers_has_a_search_path_of_its_own_with_temporary_things_last(clerk: Clerk) -> None:
    rows = clerk.query("""
        select proname, (select c from unnest(proconfig) c where c like 'search_path=%') as path
          from pg_proc where pronamespace = 'celeriac'::regnamespace and prosecdef""")
    assert {row["path"] for row in rows} == {"search_path=celeriac, pg_temp"}
    assert len(rows) > 25
