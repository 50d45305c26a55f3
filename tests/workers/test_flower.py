import base64
import dataclasses
from collections.abc import Iterator

import httpx
import pytest
import redis

from app.dev.ports import free_port
from app.dev.processes import Process
from app.dev.valkey import EmbeddedValkey
from app.dev.waiting import wait_until
from app.settings import Settings, SettingsError
from tests.workers.conftest import StartProcess
from workers import flower

PASSWORD = "hunter2"
READS = [
    *("/", "/workers", "/tasks", "/broker", "/metrics", "/task/x", "/worker/x", "/tasks/datatable"),
    *("/api/workers", "/api/tasks", "/api/task/types", "/api/queues/length", "/api/task/info/x", "/api/task/result/x"),
]
CONTROLS = [
    *("/api/worker/shutdown/x", "/api/worker/pool/grow/x", "/api/worker/queue/add-consumer/x"),
    *("/api/task/revoke/x", "/api/task/rate-limit/x", "/api/task/timeout/x", "/api/task/abort/x"),
    *("/api/task/apply/x", "/api/task/async-apply/x", "/api/task/send-task/x"),
]


@pytest.fixture
def locked_settings(settings: Settings, valkey: EmbeddedValkey) -> Iterator[Settings]:
    """A broker that wants a password, written as a fail-over list of two; and a Flower that wants another."""
    url = f"redis://:{PASSWORD}@127.0.0.1:{valkey.port}/0"
    with redis.Redis.from_url(valkey.url()) as client:
        client.config_set("requirepass", PASSWORD)
        try:
            yield dataclasses.replace(
                settings,
                redis_url=url,
                broker_url=f"{url};{url}",
                flower_port=free_port(),
                flower_basic_auth="ada:secret-of-ada",
                log_level="debug",
            )
        finally:
            client.config_set("requirepass", "")


@pytest.fixture
def served(start: StartProcess, locked_settings: Settings) -> Process:
    process = start("flower", locked_settings)
    process.wait_for_output("flower listens")
    return process


@pytest.fixture
def stranger(locked_settings: Settings, served: Process) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://127.0.0.1:{locked_settings.flower_port}") as client:
        yield client


@pytest.fixture
def ada(locked_settings: Settings, served: Process) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=f"http://127.0.0.1:{locked_settings.flower_port}", auth=("ada", "secret-of-ada"), timeout=20
    ) as client:
        yield client


def test_nobody_looks_or_acts_without_a_password(stranger: httpx.Client) -> None:
    answers = {path: stranger.get(path).status_code for path in READS}
    answers |= {path: stranger.post(path).status_code for path in CONTROLS}
    assert set(answers.values()) <= {401, 403}, answers
    wrong = base64.b64encode(b"ada:guess").decode()
    assert stranger.get("/", headers={"Authorization": f"Basic {wrong}"}).status_code == 401


def test_who_logs_in_looks_but_does_not_act(ada: httpx.Client) -> None:
    assert ada.get("/workers").status_code == 200
    assert ada.get("/metrics").status_code == 200
    refused = {path: ada.post(path).status_code for path in CONTROLS}
    assert set(refused.values()) == {403}, refused


def test_no_page_and_no_log_shows_the_password_of_the_broker(
    ada: httpx.Client, served: Process, start: StartProcess, locked_settings: Settings
) -> None:
    maintenance = start("maintenance", locked_settings)
    maintenance.wait_for_output("ready.")
    beat = start("beat", locked_settings)
    wait_until(lambda: "maintenance" in ada.get("/api/workers?refresh=1").text)
    [worker] = ada.get("/api/workers").json()
    shown = [ada.get(path).text for path in (*READS, f"/worker/{worker}")]
    assert any("expire_leases" in page for page in shown)
    for text in (*shown, served.output(), maintenance.output(), beat.output()):
        assert PASSWORD not in text


def test_an_open_flower_must_be_asked_for(settings: Settings) -> None:
    with pytest.raises(SettingsError, match="CELERIAC_FLOWER_BASIC_AUTH"):
        flower.run(settings)
    flower.check(dataclasses.replace(settings, flower_open=True))


def test_without_a_broker_there_is_nothing_to_see(settings: Settings) -> None:
    with pytest.raises(SettingsError, match="CELERIAC_REDIS_URL"):
        flower.run(dataclasses.replace(settings, redis_url=None, broker_url=None))


def test_flower_ends_with_zero_when_asked(served: Process) -> None:
    assert served.stop() == 0
