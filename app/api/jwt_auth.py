"""JSON Web Tokens: the configuration says which key and which algorithm, the token never does.

Exactly one source of keys is configured: a shared secret (HS256), a public key (RS256 or ES256 by its kind), or
the address of a key set (RS256 and ES256; `kid` only picks one out of the set). `jku`, `jwk`, `x5u` and the like in a
token's header are ignored. `exp`, `iss`, `aud` and `sub` are required. Clocks may differ by LEEWAY_SECONDS.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import httpx
import jwt
import orjson
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from app.api.rights import VERBS, Principal
from app.settings import Settings

LEEWAY_SECONDS: Final = 10
LONGEST_LIFE_SECONDS: Final = 366 * 86_400
"""A token that outlives a year is no token but a key without a way to revoke it."""
LONGEST_TOKEN: Final = 8192
SHORTEST_SECRET: Final = 32
SMALLEST_RSA_BITS: Final = 2048

KEY_SET_SECONDS: Final = 300.0
KEY_SET_PAUSE_SECONDS: Final = 5.0
"""A token with an unknown `kid` makes us look again, but not more often than this."""
KEY_SET_TIMEOUT_SECONDS: Final = 5.0
LARGEST_KEY_SET: Final = 1 << 18

_BAD_TOKEN: Final = (jwt.PyJWTError, ValueError, TypeError, OverflowError, AttributeError, RecursionError)


class ConfigurationError(ValueError):
    """The JWT settings cannot be used; the message says which."""


@dataclass(frozen=True)
class Candidate:
    """A key that a token may have been signed with, and the one algorithm it is for."""

    algorithm: str
    key: Any
    kid: str | None = None


class KeySource(Protocol):
    async def candidates(self, kid: str | None) -> Sequence[Candidate]: ...


class FixedKey:
    """The one key of the configuration; a `kid` means nothing to it."""

    def __init__(self, candidate: Candidate) -> None:
        self._candidates = (candidate,)

    async def candidates(self, kid: str | None) -> Sequence[Candidate]:
        return self._candidates


class KeySet:
    """The keys behind one configured address, fetched without redirects, within a size and a time, and remembered."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._keys: Sequence[Candidate] = ()
        self._fetched_at = float("-inf")
        self._asked_at = float("-inf")
        self._turn = asyncio.Lock()

    async def candidates(self, kid: str | None) -> Sequence[Candidate]:
        found = self._pick(kid)
        if not found or self._is_older(self._fetched_at, KEY_SET_SECONDS):
            await self._refresh()
            found = self._pick(kid)
        return found

    def _pick(self, kid: str | None) -> Sequence[Candidate]:
        if kid is None:
            return self._keys if len(self._keys) == 1 else ()
        return [candidate for candidate in self._keys if candidate.kid == kid]

    async def _refresh(self) -> None:
        async with self._turn:
            if not self._is_older(self._asked_at, KEY_SET_PAUSE_SECONDS):
                return
            self._asked_at = time.monotonic()
            try:
                self._keys = read_key_set(await self._download())
                self._fetched_at = time.monotonic()
            except (httpx.HTTPError, ConfigurationError, TimeoutError):
                # The keys we have stay good: an issuer that is down for a moment must not lock everybody out.
                return

    async def _download(self) -> bytes:
        async with (
            asyncio.timeout(KEY_SET_TIMEOUT_SECONDS),
            httpx.AsyncClient(follow_redirects=False) as client,
            client.stream("GET", self._url, headers={"Accept-Encoding": "identity"}) as response,
        ):
            if response.status_code != 200:
                raise ConfigurationError("the key set's address does not answer with 200")
            content = b""
            async for piece in response.aiter_raw():
                content += piece
                if len(content) > LARGEST_KEY_SET:
                    raise ConfigurationError("the key set is too large")
            return content

    @staticmethod
    def _is_older(moment: float, seconds: float) -> bool:
        return time.monotonic() - moment > seconds


class TokenVerifier:
    """Says whose a token is, or None; never why not."""

    def __init__(self, source: KeySource, issuer: str, audience: str) -> None:
        self._source = source
        self._issuer = issuer
        self._audience = audience

    async def principal(self, token: str) -> Principal | None:
        if len(token) > LONGEST_TOKEN:
            return None
        try:
            kid = jwt.get_unverified_header(token).get("kid")
            candidates = await self._source.candidates(kid if isinstance(kid, str) else None)
        except _BAD_TOKEN:
            return None
        for candidate in candidates:
            claims = self._verified(token, candidate)
            if claims is not None:
                return read_principal(claims)
        return None

    def _verified(self, token: str, candidate: Candidate) -> Mapping[str, Any] | None:
        try:
            claims: Mapping[str, Any] = jwt.decode(
                token,
                candidate.key,
                algorithms=[candidate.algorithm],
                issuer=self._issuer,
                audience=self._audience,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
            lives_on_seconds = float(claims["exp"]) - time.time()
        except _BAD_TOKEN:
            return None
        return claims if lives_on_seconds <= LONGEST_LIFE_SECONDS else None


def read_principal(claims: Mapping[str, Any]) -> Principal | None:
    """`sub` is the name, `scope` the verbs (unknown words mean nothing), `task_types` the patterns (none: no types)."""
    name, scope, patterns = claims["sub"], claims.get("scope", ""), claims.get("task_types", [])
    if not isinstance(name, str) or not 1 <= len(name) <= 255 or not name.isprintable():
        return None
    if not isinstance(scope, str) or not isinstance(patterns, list) or len(patterns) > 1000:
        return None
    if not all(isinstance(pattern, str) and 1 <= len(pattern) <= 255 for pattern in patterns):
        return None
    verbs = frozenset(scope.split()) & VERBS
    return Principal(name, verbs, tuple(patterns), expires_at=float(claims["exp"]) + LEEWAY_SECONDS)


def read_key_set(content: bytes) -> Sequence[Candidate]:
    """The RSA and P-256 keys of a JWKS document; other kinds, also symmetric ones, are left out."""
    try:
        keys = orjson.loads(content)["keys"]
        return [found for key in keys if (found := _read_jwk(key)) is not None]
    except (ValueError, TypeError, KeyError) as wrong:
        raise ConfigurationError("the key set cannot be read") from wrong


def _read_jwk(key: Mapping[str, Any]) -> Candidate | None:
    algorithm = {"RSA": "RS256", "EC": "ES256"}.get(str(key.get("kty")))
    if algorithm is None or key.get("use", "sig") != "sig" or key.get("alg", algorithm) != algorithm:
        return None
    try:
        public = jwt.PyJWK(dict(key), algorithm).key
        return Candidate(_algorithm_for(public), public, key.get("kid"))
    except (jwt.PyJWTError, ValueError):
        return None


def _algorithm_for(public: Any) -> str:
    if isinstance(public, RSAPublicKey) and public.key_size >= SMALLEST_RSA_BITS:
        return "RS256"
    if isinstance(public, EllipticCurvePublicKey) and isinstance(public.curve, SECP256R1):
        return "ES256"
    raise ConfigurationError(f"must be a public key: RSA of {SMALLEST_RSA_BITS} bits or more, or P-256")


def configured_verifier(settings: Settings) -> TokenVerifier | None:
    """The verifier that the settings ask for; None when they say nothing of JWT.

    ConfigurationError when they say too little or too much.
    """
    sources = [settings.jwt_secret, settings.jwt_public_key, settings.jwt_jwks_url]
    if not any(sources):
        return None
    if sum(source is not None for source in sources) > 1:
        raise ConfigurationError("set one of CELERIAC_JWT_SECRET, CELERIAC_JWT_PUBLIC_KEY and CELERIAC_JWT_JWKS_URL")
    if not settings.jwt_issuer or not settings.jwt_audience:
        raise ConfigurationError("JWT needs CELERIAC_JWT_ISSUER and CELERIAC_JWT_AUDIENCE")
    return TokenVerifier(_key_source(settings), settings.jwt_issuer, settings.jwt_audience)


def _key_source(settings: Settings) -> KeySource:
    if settings.jwt_jwks_url:
        return KeySet(settings.jwt_jwks_url)
    if settings.jwt_secret:
        if len(settings.jwt_secret.encode()) < SHORTEST_SECRET:
            raise ConfigurationError(f"CELERIAC_JWT_SECRET must have at least {SHORTEST_SECRET} bytes")
        return FixedKey(Candidate("HS256", settings.jwt_secret))
    try:
        public = load_pem_public_key((settings.jwt_public_key or "").encode())
        return FixedKey(Candidate(_algorithm_for(public), public))
    except (ValueError, UnsupportedAlgorithm) as wrong:
        raise ConfigurationError(f"CELERIAC_JWT_PUBLIC_KEY: {wrong}") from wrong
