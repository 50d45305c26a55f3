import pytest

from app.settings import Settings, SettingsError, hide_passwords

URL = "postgresql://celeriac:s3cret@db.example/celeriac?options=-crole%3Dceleriac_api"


def read(**variables: str) -> Settings:
    return Settings.from_env(
        {"CELERIAC_DATABASE_URL": URL, **{f"CELERIAC_{k.upper()}": v for k, v in variables.items()}}
    )


def problems(**variables: str) -> str:
    with pytest.raises(SettingsError) as refused:
        read(**variables)
    return str(refused.value)


def test_only_the_database_must_be_given() -> None:
    settings = read()
    assert settings.database_url == URL
    assert (settings.host, settings.port, settings.api_processes) == ("127.0.0.1", 8080, 1)
    assert settings.redis_url is None
    assert settings.broker_url is None


def test_without_a_database_the_missing_name_is_told() -> None:
    with pytest.raises(SettingsError, match="CELERIAC_DATABASE_URL is not set"):
        Settings.from_env({})


def test_a_misspelt_name_is_refused_with_the_nearest_one() -> None:
    assert "CELERIAC_REDIS_ULR is not a setting; the nearest one is CELERIAC_REDIS_URL" in problems(
        redis_ulr="redis://r"
    )


def test_names_of_others_are_none_of_our_business() -> None:
    assert (
        Settings.from_env({"CELERIAC_DATABASE_URL": URL, "CELERY_BROKER_URL": "redis://elsewhere"}).broker_url is None
    )


def test_every_wrong_value_is_named_at_once() -> None:
    told = problems(port="99999", metrics_public="maybe", log_level="loud", database_pool="-1", redis_url="http://r")
    for name in ("PORT", "METRICS_PUBLIC", "LOG_LEVEL", "DATABASE_POOL", "REDIS_URL"):
        assert f"CELERIAC_{name} " in told


def test_a_refusal_does_not_repeat_a_password() -> None:
    assert "hunter2" not in problems(redis_url="rediz://:hunter2@host", flower_basic_auth=":hunter2")


def test_an_empty_value_means_not_set() -> None:
    assert read(redis_url="", port=" ").redis_url is None


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg", "postgres"])
def test_each_spelling_of_a_database_url_becomes_the_same_one(scheme: str) -> None:
    settings = Settings.from_env({"CELERIAC_DATABASE_URL": f"{scheme}://u:p@h:5432/d"})
    assert settings.database_url == "postgresql://u:p@h:5432/d"


def test_the_broker_is_the_redis_of_the_wake_ups_unless_set() -> None:
    assert read(redis_url="redis://r/1").broker_url == "redis://r/1"
    assert read(redis_url="unix:///run/redis.sock").broker_url == "redis+socket:///run/redis.sock"
    assert read(redis_url="redis://r/1", broker_url="amqp://b").broker_url == "amqp://b"


def test_a_public_key_may_stand_in_a_file(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("keys") / "key.pem"
    file.write_text("-----BEGIN PUBLIC KEY-----\nMII\n-----END PUBLIC KEY-----\n")
    assert read(jwt_public_key=str(file)).jwt_public_key == file.read_text().strip()
    assert "CELERIAC_JWT_PUBLIC_KEY must be" in problems(jwt_public_key="/nowhere/key.pem")


def test_a_child_process_gets_the_same_settings() -> None:
    settings = read(redis_url="redis://:pw@r", jwt_secret="s", metrics_public="yes", retention_days="7", port="0")
    assert Settings.from_env(settings.to_env()) == settings


def test_showing_the_settings_shows_no_secret() -> None:
    shown = repr(
        read(redis_url="redis://:hunter1@r", broker_url="amqp://u:hunter2@a;amqp://u:hunter3@b", jwt_secret="hunter4")
    )
    assert "hunter" not in shown
    assert "s3cret" not in shown
    assert "db.example" in shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:p@h/d", "postgresql://u:***@h/d"),
        ("postgresql://u:p@ss@h/d", "postgresql://u:***@h/d"),
        ("postgresql://h/d?user=u&password=p&sslpassword=q", "postgresql://h/d?user=u&password=***&sslpassword=***"),
        ("redis://:p@h;redis://:q@i/0", "redis://:***@h;redis://:***@i/0"),
        ("redis://h:6379/0", "redis://h:6379/0"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert hide_passwords(url) == shown


def test_there_are_fewer_than_thirty_names() -> None:
    assert len(Settings.__dataclass_fields__) < 30
