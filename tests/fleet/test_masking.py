"""What people may see of variables and results."""

import pytest

from celeriac.celery._masking import LONGEST, is_secret, shown

SECRETS = """
    password PASSWORD db_password dbPassword userPwd api_key apiKey X-Api-Key APIKEY token accessToken refresh-token
    client_secret Authorization AWS_SECRET_ACCESS_KEY privateKey cookie sessionToken credentials cvv OTP
"""


@pytest.mark.parametrize("name", SECRETS.split())
def test_names_of_secrets_are_known_however_they_are_spelled(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name", ["order", "key", "primary_key", "keyboard", "author", "shipping", "passenger", "monkey"]
)
def test_other_names_are_not_taken_for_secrets(name: str) -> None:
    assert not is_secret(name)


def test_secrets_are_masked_at_every_depth() -> None:
    text = shown({"user": "anna", "login": {"password": "geheim", "tries": [{"api_key": "geheim"}]}})
    assert text == "{'user': 'anna', 'login': {'password': '***', 'tries': [{'api_key': '***'}]}}"


def test_addresses_lose_their_user() -> None:
    assert shown({"url": "postgresql://anna:geheim@db/x"}) == "{'url': 'postgresql://***@db/x'}"


def test_what_is_long_is_cut() -> None:
    assert len(shown({"text": "x" * 10_000_000, "rows": list(range(100_000))})) < 400
    assert len(shown({str(number): "x" * 99 for number in range(1000)})) == LONGEST
    deep: list[object] = []
    for _ in range(1000):
        deep = [deep]
    assert len(shown(deep)) < 20
