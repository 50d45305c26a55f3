"""docker-compose.yml without Docker: read it, and run every command of ours in it until its health check passes."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
import yaml

from app.dev.ports import free_port
from app.dev.postgres import EmbeddedPostgres
from app.dev.processes import Process, console_command
from app.dev.valkey import EmbeddedValkey
from app.settings import Settings
from tests.house.tree import ROOT

TEXT = (ROOT / "docker-compose.yml").read_text()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(TEXT)["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"] == "celeriac"}
SERVERS = [name for name in OURS if name != "migrate"]
# A password that would break a URL it were pasted into; the one for Redis has to stand in one.
SECRETS = {"POSTGRES_PASSWORD": "p@ss/w:rd %", "REDIS_PASSWORD": "bell123", "FLOWER_BASIC_AUTH": "eve:secret"}


def test_the_services_are_the_production_shape() -> None:
    assert set(SERVICES) == {"postgres", "redis", "migrate", "api", "maintenance", "beat", "flower"}


def test_no_secret_has_a_value_or_a_default() -> None:
    for service in SERVICES.values():
        for name, value in service["environment"].items():
            if re.search(r"PASSWORD|AUTH|SECRET|KEY", name):
                assert re.fullmatch(r"\$\{\w+:\?[^}]*\}", value), name
    assert not re.search(r"://[^/@\s]*:(?!\$\{)[^@/\s]+@", TEXT), "a URL with a password"


def test_every_server_has_a_health_check_and_only_a_job_ends() -> None:
    without = [name for name, service in SERVICES.items() if "healthcheck" not in service]
    assert without == ["migrate"]
    assert {name: service["restart"] for name, service in SERVICES.items() if name != "migrate"} == dict.fromkeys(
        (name for name in SERVICES if name != "migrate"), "unless-stopped"
    )


@pytest.mark.parametrize("name", SERVERS)
def test_our_servers_start_when_the_database_is_migrated(name: str) -> None:
    conditions = {other: needs["condition"] for other, needs in OURS[name]["depends_on"].items()}
    assert conditions == {
        "postgres": "service_healthy",
        "redis": "service_healthy",
        "migrate": "service_completed_successfully",
    }


def test_ports_are_published_on_loopback_only() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published
    assert [port for port in published if not port.startswith("127.0.0.1:")] == []


@dataclass(frozen=True)
class Stores:
    """A Postgres and a Redis that know the users and passwords of the compose file."""

    postgres: EmbeddedPostgres
    valkey: EmbeddedValkey

    def at_home(self, value: str) -> str:
        """An environment value with its hosts replaced by ours."""
        return value.replace("@postgres:5432/", f"@127.0.0.1:{self.postgres.port}/").replace(
            "@redis:6379/", f"@127.0.0.1:{self.valkey.port}/"
        )


@pytest.fixture(scope="module")
def stores() -> Iterator[Stores]:
    with EmbeddedPostgres(durable=False) as postgres, EmbeddedValkey() as valkey:
        with psycopg.connect(postgres.url(), autocommit=True) as conn:
            conn.execute("create role celeriac superuser login")
            conn.execute("create database celeriac owner celeriac")
        with redis.Redis.from_url(valkey.url()) as client:
            client.config_set("requirepass", SECRETS["REDIS_PASSWORD"])
        yield Stores(postgres, valkey)


def environment(name: str, stores: Stores, state: Path) -> dict[str, str]:
    """What compose would give the service, with our hosts, free ports and a state folder of its own."""
    given = {key: stores.at_home(filled_in(value)) for key, value in OURS[name]["environment"].items()}
    ports = {key: str(free_port()) for key in given if key.endswith("_PORT")}
    return given | ports | {"CELERIAC_STATE_DIR": str(state), "PATH": os.environ["PATH"]}


def filled_in(value: str) -> str:
    """The secrets, and nothing for what may be empty."""
    return re.sub(r"\$\{(\w+)(:-)?[^}]*\}", lambda match: "" if match[2] else SECRETS[match[1]], value)


def test_every_setting_of_the_camunda_face_that_a_person_chooses_is_passed_on() -> None:
    names = {f"CELERIAC_{field.name.upper()}" for field in fields(Settings) if field.name.startswith("camunda_")}
    passed = OURS["api"]["environment"]
    assert {name for name in names if passed.get(name) != f"${{{name}:-}}"} == {"CELERIAC_CAMUNDA_POLLS"}


def process(name: str, env: Mapping[str, str], folder: Path) -> Process:
    command = [console_command("celeriac"), *OURS[name]["command"]]
    return Process(command, folder / f"{name}.log", name=name, env=env, cwd=folder)


def is_healthy(name: str, env: Mapping[str, str], folder: Path) -> bool:
    kind, program, *arguments = OURS[name]["healthcheck"]["test"]
    assert kind == "CMD"
    check = Process([console_command(program), *arguments], folder / f"{name}-health.log", env=env, cwd=folder)
    with check:
        return check.wait() == 0


@pytest.fixture(scope="module")
def migrated(stores: Stores, tmp_path_factory: pytest.TempPathFactory) -> Stores:
    folder = tmp_path_factory.mktemp("migrate")
    with process("migrate", environment("migrate", stores, folder), folder) as migrate:
        assert migrate.wait(60) == 0, migrate.output()
    return stores


@pytest.mark.parametrize("name", SERVERS)
def test_the_command_of_a_service_becomes_healthy_and_stops_when_asked(
    name: str, migrated: Stores, tmp_path: Path
) -> None:
    env = environment(name, migrated, tmp_path)
    with process(name, env, tmp_path) as server:
        server.wait_for(lambda: is_healthy(name, env, tmp_path), 60, what="a passing health check")
        assert server.stop() == 0, server.output()


@pytest.mark.parametrize("name", SERVERS)
def test_a_service_that_does_not_run_is_not_healthy(name: str, migrated: Stores, tmp_path: Path) -> None:
    assert not is_healthy(name, environment(name, migrated, tmp_path), tmp_path)
