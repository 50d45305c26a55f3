"""JWT: good tokens are let in; forged, foreign and stale ones get the one 401. The tokens are forged here, case B71."""

import base64
import hashlib
import hmac
import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from app.api import jwt_auth
from app.api.jwt_auth import ConfigurationError
from app.server.application import create
from app.settings import Settings
from tests.api.conftest import client_of
from tests.api.test_door import BODIES, WITHOUT_BODY

ISSUER, AUDIENCE = "https://issuer.example", "celeriac"
SECRET = "a secret of more than thirty-two bytes, for the tests only"
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_EC_KEY = ec.generate_private_key(ec.SECP256R1())
EC_KEY = ec.generate_private_key(ec.SECP256R1())


def pem(key: Any) -> str:
    public = key.public_key()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return str(public.public_bytes(serialization.Encoding.PEM, form).decode())


def claims(**changed: Any) -> dict[str, Any]:
    now = int(time.time())
    good = {"sub": "robot", "scope": "read enqueue", "task_types": ["*"], "iat": now, "exp": now + 600}
    merged = good | {"aud": AUDIENCE, "iss": ISSUER} | changed
    return {name: value for name, value in merged.items() if value is not None}


def forge(header: dict[str, Any], payload: dict[str, Any], key: bytes | None = None) -> str:
    """A token put together by hand, since no library would sign these."""
    signed = f"{_b64(json.dumps(header).encode())}.{_b64(json.dumps(payload).encode())}"
    signature = "" if key is None else _b64(hmac.new(key, signed.encode(), hashlib.sha256).digest())
    return f"{signed}.{signature}"


def _b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


Sign = Callable[[dict[str, Any]], str]


def sign_with(key: Any, algorithm: str, kid: str | None = None) -> Sign:
    """Signs whatever is claimed, also what a JWT library would not let out."""
    headers = {} if kid is None else {"kid": kid}
    return lambda payload: jwt.PyJWS().encode(json.dumps(payload).encode(), key, algorithm, headers)


def forged_tokens(public_pem: str) -> list[str]:
    raw, payload = public_pem.encode(), claims(scope="admin read enqueue work manage")
    return [
        *(forge({"alg": algorithm, "typ": "JWT"}, payload) for algorithm in ("none", "None", "NONE", "nOnE", "")),
        forge({"alg": "HS256"}, payload, raw),
        forge({"alg": "HS256"}, payload, raw.strip()),
        forge({"alg": "HS256", "kid": "../../../../dev/null"}, payload, b""),
        forge({"alg": "HS256", "jku": "http://127.0.0.1:9/keys", "kid": "x"}, payload, b"x"),
        forge({"alg": "HS256", "jwk": {"kty": "oct", "k": _b64(b"x")}}, payload, b"x"),
        forge({"alg": ["none"]}, payload),
        forge({"alg": None}, payload),
        forge({}, payload),
        forge({"alg": "RS256", "crit": ["exp"]}, payload, raw),
        "..",
        "a.b.c",
        "x" * 9000,
        jwt.encode(payload, OTHER_RSA_KEY, "RS256"),
        sign_with(OTHER_RSA_KEY, "RS256", kid="one")(payload),
        jwt.encode(payload, OTHER_EC_KEY, "ES256"),
    ]


def wrong_claims(sign: Sign) -> list[str]:
    now = int(time.time())
    changes: list[dict[str, Any]] = [
        {"exp": None}, {"exp": "never"}, {"exp": now - 3600}, {"exp": now - jwt_auth.LEEWAY_SECONDS - 1},
        {"exp": 253_402_300_800}, {"exp": 1e300}, {"nbf": now + 3600}, {"iat": now + 3600},
        {"iss": None}, {"iss": "https://other.example"}, {"iss": ISSUER + "/"}, {"iss": [ISSUER]},
        {"aud": None}, {"aud": "other"}, {"aud": ["other"]}, {"aud": {}},
        {"sub": None}, {"sub": ""}, {"sub": 5}, {"sub": "a\nb"}, {"scope": ["read"]}, {"task_types": "*"},
        {"task_types": [5]},
    ]  # fmt: skip
    return [sign(claims(**changed)) for changed in changes]


def configured(api_url_db: str, **jwt_settings: str) -> Settings:
    return Settings(database_url=api_url_db, jwt_issuer=ISSUER, jwt_audience=AUDIENCE, **jwt_settings)  # type: ignore[arg-type]


CONFIGURATIONS: dict[str, tuple[dict[str, str], Sign]] = {
    "HS256": ({"jwt_secret": SECRET}, sign_with(SECRET, "HS256")),
    "RS256": ({"jwt_public_key": pem(RSA_KEY)}, sign_with(RSA_KEY, "RS256")),
    "ES256": ({"jwt_public_key": pem(EC_KEY)}, sign_with(EC_KEY, "ES256")),
}


@pytest.fixture(params=CONFIGURATIONS)
def configuration(request: pytest.FixtureRequest) -> tuple[dict[str, str], Sign]:
    return CONFIGURATIONS[request.param]


class TestWithAFixedKey:
    @pytest.fixture
    def settings(self, api_url_db: str, configuration: tuple[dict[str, str], Sign]) -> Settings:
        return configured(api_url_db, **configuration[0])

    async def test_a_good_token_is_let_in_with_its_own_rights(self, app: Any, configuration: Any) -> None:
        sign = configuration[1]
        async with client_of(app, sign(claims(task_types=["mail"]))) as robot:
            assert (await robot.get("/v1/tasks")).status_code == 200
            assert (await robot.post("/v1/tasks", json={"task_type": "mail"})).status_code == 201
            assert (await robot.post("/v1/tasks", json={"task_type": "payroll"})).status_code == 403
            assert (await robot.get("/v1/keys")).status_code == 403
        async with client_of(app, sign(claims(task_types=None))) as nobody:
            assert (await nobody.post("/v1/tasks", json={"task_type": "mail"})).status_code == 403
        async with client_of(app, sign(claims(exp=int(time.time()) - 1))) as late:
            assert (await late.get("/v1/tasks")).status_code == 200, "within the leeway"

    async def test_forged_foreign_and_stale_tokens_get_the_one_401_on_every_route(
        self, app: Any, configuration: tuple[dict[str, str], Sign]
    ) -> None:
        fixed, sign = configuration
        tokens = forged_tokens(fixed.get("jwt_public_key", pem(RSA_KEY))) + wrong_claims(sign)
        bodies = set()
        async with client_of(app, None) as client:
            for token in tokens:
                answer = await client.get("/v1/tasks", headers={"Authorization": f"Bearer {token}"})
                bodies.add((answer.status_code, answer.text))
            for method, path in [*BODIES, *WITHOUT_BODY]:
                answer = await client.request(method, path, headers={"Authorization": f"Bearer {tokens[0]}"})
                bodies.add((answer.status_code, answer.text))
            good = sign(claims())
            for sent in (
                {"headers": {"X-API-Key": good}},
                {"headers": {"Cookie": f"jwt={good}"}},
                {"params": {"jwt": good}},
            ):
                answer = await client.get("/v1/tasks", **sent)  # type: ignore[arg-type]
                bodies.add((answer.status_code, answer.text))
        assert len(bodies) == 1
        assert bodies.pop()[0] == 401


@pytest.mark.parametrize(
    "changed",
    [
        {"jwt_audience": None},
        {"jwt_issuer": None},
        {"jwt_secret": "short"},
        {"jwt_public_key": pem(RSA_KEY)},
        {"jwt_secret": None, "jwt_public_key": "-----BEGIN PUBLIC KEY-----\nnothing\n-----END PUBLIC KEY-----"},
        {"jwt_secret": None, "jwt_public_key": pem(rsa.generate_private_key(public_exponent=65537, key_size=1024))},
        {"jwt_secret": None, "jwt_public_key": pem(ec.generate_private_key(ec.SECP384R1()))},
    ],
)
def test_a_configuration_that_would_be_unsafe_does_not_start(changed: dict[str, Any]) -> None:
    good = {"jwt_secret": SECRET, "jwt_issuer": ISSUER, "jwt_audience": AUDIENCE}
    with pytest.raises(ConfigurationError):
        create(Settings(database_url="postgresql://nobody@localhost/nowhere", **(good | changed)))


class Issuer:
    """An HTTP server with a key set that tests change; counts who asks."""

    def __init__(self) -> None:
        self.answer: Callable[[http.server.BaseHTTPRequestHandler], None] = lambda handler: self.send_keys(handler)
        self.keys: list[dict[str, Any]] = []
        self.asked = 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked += 1
                outer.answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/keys"

    def send_keys(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        content = json.dumps({"keys": self.keys}).encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    def offer(self, key: Any, kid: str, algorithm: Any) -> None:
        shown = json.loads(algorithm.to_jwk(key.public_key()))
        self.keys.append(shown | {"kid": kid, "use": "sig"})


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    issuer = Issuer()
    thread = threading.Thread(target=issuer.server.serve_forever)
    thread.start()
    yield issuer
    issuer.server.shutdown()
    thread.join()
    issuer.server.server_close()


class TestWithAKeySet:
    @pytest.fixture
    def settings(self, api_url_db: str, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> Settings:
        monkeypatch.setattr(jwt_auth, "KEY_SET_PAUSE_SECONDS", 0.0)
        issuer.offer(RSA_KEY, "one", jwt.algorithms.RSAAlgorithm)
        issuer.keys.append({"kty": "oct", "kid": "oct", "k": _b64(b"x" * 32), "alg": "HS256"})
        return configured(api_url_db, jwt_jwks_url=issuer.url)

    async def get(self, app: Any, token: str) -> int:
        async with client_of(app, token) as client:
            return (await client.get("/v1/tasks")).status_code

    async def test_a_kid_picks_a_key_of_the_set_and_rotation_refuses_no_valid_token(
        self, app: Any, issuer: Issuer
    ) -> None:
        old = jwt.encode(claims(), RSA_KEY, "RS256", headers={"kid": "one"})
        new = jwt.encode(claims(), EC_KEY, "ES256", headers={"kid": "two"})
        assert await self.get(app, old) == 200
        assert await self.get(app, new) == 401
        issuer.offer(EC_KEY, "two", jwt.algorithms.ECAlgorithm)
        assert await self.get(app, new) == 200
        assert await self.get(app, old) == 200

    async def test_a_symmetric_key_in_the_set_and_forged_tokens_are_refused(self, app: Any, issuer: Issuer) -> None:
        assert await self.get(app, jwt.encode(claims(), b"x" * 32, "HS256", headers={"kid": "oct"})) == 401
        for token in forged_tokens(pem(RSA_KEY)) + wrong_claims(sign_with(RSA_KEY, "RS256", kid="one")):
            assert await self.get(app, token) == 401

    async def test_an_issuer_that_is_down_later_locks_nobody_out(self, app: Any, issuer: Issuer) -> None:
        token = jwt.encode(claims(), RSA_KEY, "RS256", headers={"kid": "one"})
        assert await self.get(app, token) == 200
        issuer.answer = lambda handler: handler.send_error(500)
        assert await self.get(app, jwt.encode(claims(), EC_KEY, "ES256", headers={"kid": "two"})) == 401
        assert await self.get(app, token) == 200

    @pytest.mark.parametrize("trap", ["redirect", "endless", "drip", "not JSON"])
    async def test_a_key_set_that_misbehaves_is_given_up(
        self, app: Any, issuer: Issuer, trap: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Case B70 where it concerns us: no redirect is followed, size and time are bounded."""
        monkeypatch.setattr(jwt_auth, "KEY_SET_TIMEOUT_SECONDS", 0.5)
        issuer.answer = lambda handler: _spring(trap, handler)
        assert await self.get(app, jwt.encode(claims(), RSA_KEY, "RS256", headers={"kid": "one"})) == 401
        assert issuer.asked == 1


def _spring(trap: str, handler: http.server.BaseHTTPRequestHandler) -> None:
    try:
        if trap == "redirect":
            handler.send_response(302)
            handler.send_header("Location", "/elsewhere")
            handler.end_headers()
            return
        handler.send_response(200)
        handler.end_headers()
        for _ in range({"endless": 100, "drip": 20, "not JSON": 1}[trap]):
            handler.wfile.write(b"{" * (1 if trap != "endless" else 65536))
            handler.wfile.flush()
            time.sleep(0.1 if trap == "drip" else 0)
    except OSError:
        pass  # they hung up on us, as they should
