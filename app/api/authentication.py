"""From the headers of a request to its principal. Every failure looks the same to the caller."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.datastructures import Headers

from app.api.database import Database
from app.api.jwt_auth import TokenVerifier
from app.api.keys_auth import KeyRing, is_key
from app.api.problems import unauthorized
from app.api.rights import Principal


@dataclass(frozen=True)
class Credential:
    """What a caller shows: an API key or a JWT."""

    text: str
    is_key: bool

    def __repr__(self) -> str:
        return "Credential(…)"


class Authenticator:
    """Turns credentials into principals; 401 when there is none behind them."""

    def __init__(self, keys: KeyRing, tokens: TokenVerifier | None) -> None:
        self._keys = keys
        self._tokens = tokens

    async def principal(self, credential: Credential) -> Principal:
        if credential.is_key:
            found = await self._keys.principal(credential.text)
        else:
            found = await self._tokens.principal(credential.text) if self._tokens else None
        if found is None:
            raise unauthorized()
        return found


def read_credential(headers: Headers) -> Credential:
    """`Authorization: Bearer <key or JWT>` or `X-API-Key: <key>`, exactly one of them; 401 otherwise."""
    bearers, keys = headers.getlist("authorization"), headers.getlist("x-api-key")
    if len(bearers) + len(keys) != 1:
        raise unauthorized()
    if keys:
        return _key(keys[0])
    scheme, _, text = bearers[0].partition(" ")
    if scheme.lower() != "bearer" or not text.isascii():
        raise unauthorized()
    return _key(text) if is_key(text) else Credential(text, is_key=False)


def _key(text: str) -> Credential:
    if not is_key(text):
        raise unauthorized()
    return Credential(text, is_key=True)


def key_finder(database: Database) -> KeyRing:
    """A key ring that asks the authority."""

    async def find(digest: bytes) -> Principal | None:
        rows = await database.rows("find_api_key", key_hash=digest)
        if not rows or not rows[0].holds:
            return None
        row = rows[0]
        expires_at = row.expires_at.timestamp() if row.expires_at else None
        return Principal(row.principal, frozenset(row.verbs), tuple(row.task_types), str(row.key_id), expires_at)

    return KeyRing(find)
