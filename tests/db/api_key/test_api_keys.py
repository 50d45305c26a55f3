"""create_api_key, find_api_key, revoke_api_key: the life of a key."""

from datetime import timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy.exc import DBAPIError

from db.errors import Invalid, NotFound
from tests.clock import Clock
from tests.db.clerk import Clerk

HASH = sha256(b"a key").digest()


def create(clerk: Clerk, **changed: Any) -> Any:
    arguments = {
        "name": "mail worker", "key_hash": HASH, "principal_name": "mailer", "verbs": ["work"],
        "task_types": ["mail", "media.*"],
    }  # fmt: skip
    return clerk.one("create_api_key", **(arguments | changed))


def find(clerk: Clerk, key_hash: bytes = HASH) -> list[Any]:
    return clerk.rows("find_api_key", key_hash=key_hash)


def test_a_key_is_found_by_its_hash(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    key = create(clerk)
    assert key.created_at == clock.now()
    (found,) = find(clerk)
    assert (found.key_id, found.name, found.principal) == (key.key_id, "mail worker", "mailer")
    assert (found.verbs, found.task_types) == (["work"], ["mail", "media.*"])
    assert (found.expires_at, found.revoked_at, found.holds) == (None, None, True)


def test_an_unknown_key_is_no_row(clerk: Clerk) -> None:
    create(clerk)
    assert find(clerk, sha256(b"another").digest()) == []


def test_a_key_holds_until_it_expires(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    create(clerk, expires_at=clock.now() + timedelta(seconds=60))
    clock.advance(59.9)
    assert find(clerk)[0].holds
    clock.advance(0.1)
    assert not find(clerk)[0].holds


def test_a_revoked_key_holds_no_more_and_stays_revoked(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    key = create(clerk)
    answer = clerk.one("revoke_api_key", key_id=key.key_id)
    assert tuple(answer) == (key.key_id, clock.now())
    clock.advance(60)
    before = clerk.everything()
    assert clerk.one("revoke_api_key", key_id=key.key_id) == answer
    assert clerk.everything() == before
    assert not find(clerk)[0].holds


def test_an_unknown_key_cannot_be_revoked(clerk: Clerk) -> None:
    create(clerk)
    with clerk.refuses(NotFound):
        clerk.one("revoke_api_key", key_id=UUID(int=7))


def test_the_view_shows_no_hash(clerk: Clerk) -> None:
    create(clerk)
    (seen,) = clerk.query("select k::text as line, * from celeriac.api_keys k")
    assert "key_hash" not in seen
    assert HASH.hex() not in seen["line"]


def test_a_hash_is_one_keys_alone(clerk: Clerk) -> None:
    create(clerk)
    before = clerk.everything()
    with pytest.raises(DBAPIError):
        create(clerk, name="another")
    assert clerk.everything() == before


@pytest.mark.parametrize(
    "field, changed",
    [
        ("name", {"name": ""}), ("name", {"name": None}), ("name", {"name": "a\n"}),
        ("principal", {"principal_name": ""}), ("principal", {"principal_name": None}),
        ("key_hash", {"key_hash": b""}), ("key_hash", {"key_hash": HASH[:31]}), ("key_hash", {"key_hash": None}),
        ("verbs", {"verbs": []}), ("verbs", {"verbs": None}), ("verbs", {"verbs": ["root"]}),
        ("verbs", {"verbs": ["work", None]}),
        ("task_types", {"task_types": None}), ("task_types", {"task_types": [""]}),
        ("task_types", {"task_types": [None]}),
    ],
    ids=str,
)  # fmt: skip
def test_a_bad_argument_is_named(clerk: Clerk, field: str, changed: dict[str, Any]) -> None:
    with clerk.refuses(Invalid, field):
        create(clerk, **changed)


def test_a_key_cannot_be_born_expired(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    with clerk.refuses(Invalid, "expires_at"):
        create(clerk, expires_at=clock.now())
