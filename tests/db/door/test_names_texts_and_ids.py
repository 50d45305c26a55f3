"""is_name, cut_text, uuid_v7: what every transition relies on."""

import sys
import unicodedata
from datetime import UTC, datetime, timedelta

import pytest

from tests.db.clerk import Clerk


def is_name(clerk: Clerk, name: str | None) -> bool:
    return clerk.scalar("select celeriac.is_name(:name)", name=name)


@pytest.mark.parametrize("name", ["m", "media.copy", "Fähre", "名前", "a b", "x" * 255, "😀", "a/b:c-d_e%f"])
def test_what_can_be_seen_is_a_name(clerk: Clerk, name: str) -> None:
    assert is_name(clerk, name)


def test_nothing_and_too_much_is_no_name(clerk: Clerk) -> None:
    assert [is_name(clerk, name) for name in (None, "", " ", "x" * 256, " a", "a ")] == [False] * 6


def test_no_name_holds_what_cannot_be_seen(clerk: Clerk) -> None:
    """Case B66: two names that look alike must not differ."""
    hidden = [
        chr(point)
        for point in range(1, sys.maxunicode + 1)
        if point != ord(" ") and unicodedata.category(chr(point)) in ("Cc", "Cf", "Zl", "Zp", "Zs")
    ]
    statement = "select n from unnest(cast(:names as text[])) n where celeriac.is_name('a' || n || 'b')"
    passed = [row["n"] for row in clerk.query(statement, names=hidden)]
    assert [f"{ord(character):x}" for character in passed] == []


@pytest.mark.parametrize("content", ["", "abc", "x" * 20, "ü" * 10, "€" * 10, "😀" * 10, "aü€😀" * 5])
def test_a_text_is_cut_at_the_last_character_that_fits(clerk: Clerk, content: str) -> None:
    for size in range(12):
        cut = clerk.scalar("select celeriac.cut_text(:content, :size)", content=content, size=size)
        assert cut == content.encode()[:size].decode(errors="ignore")


def test_cutting_a_long_text_is_quick_work(clerk: Clerk) -> None:
    assert clerk.scalar("select octet_length(celeriac.cut_text(repeat('😀', 1000000), 8192))") == 8192


def test_no_text_stays_none(clerk: Clerk) -> None:
    assert clerk.scalar("select celeriac.cut_text(null, 8192)") is None


def test_an_id_is_a_uuid_v7_that_sorts_by_its_time(clerk: Clerk) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    moments = [moment + timedelta(microseconds=step) for step in (0, 1, 2, 999, 1000, 1001, 10**6, 10**12)]
    statement = """
        select celeriac.uuid_v7(m) as id
          from unnest(cast(:moments as timestamptz[])) with ordinality u (m, place) order by place"""
    ids = [row["id"] for row in clerk.query(statement, moments=moments)]
    assert ids == sorted(ids)
    assert {(found.version, found.variant) for found in ids} == {(7, "specified in RFC 4122")}
    assert [found.int >> 80 for found in ids] == [int(moment.timestamp() * 1000) for moment in moments]


def test_ids_of_one_moment_differ(clerk: Clerk) -> None:
    assert clerk.scalar("select count(distinct celeriac.uuid_v7('2026-01-01Z')) from generate_series(1, 1000)") == 1000
