"""Every refusal of the database has its exception, status and code, and back."""

import re
import traceback
from pathlib import Path

import psycopg
import pytest
import sqlalchemy.exc

import db
from db import errors
from db.errors import BY_CODE, BY_SQLSTATE, Invalid, Refused, Unavailable, lost, translate
from tests.db.clerk import Clerk

REFUSE = (Path(db.__file__).parent / "functions/door/refuse.sql").read_text()
SQLSTATES: dict[str, str] = dict(re.findall(r'"(\w+)": "(TK\d+)"', REFUSE))


def leaves(refusal: type[Refused]) -> set[type[Refused]]:
    below = refusal.__subclasses__()
    return {leaf for child in below for leaf in leaves(child)} if below else {refusal}


def test_the_table_of_the_database_and_ours_are_the_same() -> None:
    assert {state: refusal.code for state, refusal in BY_SQLSTATE.items()} == {
        state: code for code, state in SQLSTATES.items()
    }
    assert {refusal.code: refusal for refusal in BY_SQLSTATE.values()} == BY_CODE
    assert set(BY_SQLSTATE.values()) == leaves(Refused)


def test_the_tree_on_top_of_the_file_tells_what_is_in_it() -> None:
    drawn = dict(re.findall(r"── (\w+) +(\w+)", errors.__doc__ or ""))
    assert {refusal.__name__: refusal.code for refusal in BY_SQLSTATE.values()}.items() <= drawn.items()


@pytest.mark.parametrize("code", SQLSTATES)
def test_a_refusal_arrives_whole(clerk: Clerk, code: str) -> None:
    with pytest.raises(Refused) as caught:
        clerk.rows("refuse", code=code, message="why: 100 % 'quoted'", field="a[0].b", detail={"n": 9007199254740993})
    refusal = caught.value
    assert type(refusal) is BY_CODE[code]
    assert (refusal.code, str(refusal), refusal.message) == (code, "why: 100 % 'quoted'", "why: 100 % 'quoted'")
    assert (refusal.field, refusal.detail) == ("a[0].b", {"n": 9007199254740993})
    assert 400 <= refusal.status < 500


def test_field_and_detail_may_be_missing(clerk: Clerk) -> None:
    with pytest.raises(Refused) as caught:
        clerk.rows("refuse", code="forbidden", message="no")
    assert (caught.value.field, caught.value.detail) == (None, {})


@pytest.mark.parametrize(
    "statement",
    [
        'select jsonb \'{"a": "\\u0000"}\'',
        "select 'x'::uuid",
        "select '99999999999'::int",
        "select 'tomorrow-ish'::timestamptz",
        "select '2026-02-31'::date",
        "select interval '1 ms' * 9223372036854775807",
        "select convert_from('\\xff', 'UTF8')",
        "select repeat('[', 100000)::jsonb",
    ],
)
def test_what_a_type_cannot_hold_is_invalid_input(clerk: Clerk, statement: str) -> None:
    """Cases B13, B17, B18."""
    with pytest.raises(sqlalchemy.exc.DBAPIError) as caught:
        clerk.run(statement.replace(":", "\\:"))
    assert isinstance(translate(caught.value), Invalid)
    assert isinstance(translate(caught.value.orig), Invalid)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", ["57P01", "57P02", "57P03", "25006", "53300", "08006", "08000"])
def test_an_outage_is_unavailable(state: str) -> None:
    error = psycopg.errors.lookup(state)("gone") if state != "08000" else psycopg.OperationalError("gone")
    assert isinstance(translate(error), Unavailable)
    assert lost(error)


@pytest.mark.parametrize("statement", ["select 1/0", "select * from nowhere", "selec"])
def test_a_fault_of_ours_is_not_dressed_up(clerk: Clerk, statement: str) -> None:
    with pytest.raises(sqlalchemy.exc.DBAPIError) as caught:
        clerk.run(statement)
    assert translate(caught.value) is None


def test_no_error_text_holds_a_value(clerk: Clerk) -> None:
    """Values may be secrets, and error texts end up in logs."""
    secret = "hunter2-hunter2"
    with pytest.raises(sqlalchemy.exc.DBAPIError) as caught:
        clerk.run("select 1/0 where :secret = :secret", secret=secret)
    assert secret not in str(caught.value)
    with pytest.raises(Invalid) as invalid:
        clerk.enqueue(variables={"password": secret + "\0"})
    assert secret not in "".join(traceback.format_exception(invalid.value))
