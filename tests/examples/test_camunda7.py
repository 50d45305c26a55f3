"""Workers and a model of Camunda 7, as they are, on this server."""

import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
import yaml

from app.dev.processes import Process
from tests.examples import programs

NAME = "camunda7"
FOLDER = programs.EXAMPLES / NAME


def test_its_command_tells_of_four_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = programs.module(NAME, "clients", monkeypatch)
    try:
        clients.node()
    except clients.Missing as missing:
        pytest.skip(str(missing))
    said = programs.run(NAME)
    assert said.splitlines() == [
        "deployed order, version 1",
        "A-1 (book): COMPLETED at 'paid'",
        "  receipt: book: 20 paid on A-1",
        "A-2 (lamp): COMPLETED at 'paid'",
        "  charge_card failed: the bank does not answer, 2 more tries",
        "  receipt: lamp: 80 paid on A-2",
        "A-3 (yacht): COMPLETED at 'refused'",
        "  because the bank refuses 250000",
        "A-4 (unicorn): COMPLETED at 'refused'",
        "  because no unicorn in stock",
    ]


def test_its_command_leaves_nothing_when_it_is_stopped(open_folder: Path) -> None:
    log, around = open_folder / "log", os.environ | {"TMPDIR": str(open_folder)}
    with Process([sys.executable, FOLDER / "run.py"], log, env=around) as example:
        example.wait_for(lambda: "deployed" in example.output() or not example.is_running, 90)
        if not example.is_running:
            assert "needs Node" in example.output()
            pytest.skip("no Node")
        started = psutil.Process(example.pid).children(recursive=True)
        assert started
        example.send(signal.SIGTERM)
        example.wait(60)
        assert [child for child in started if child.is_running()] == []
        assert list(open_folder.glob("celeriac-orders-*")) == []


def test_what_its_page_shows_is_what_it_tells() -> None:
    assert "  charge_card failed: the bank does not answer, 2 more tries" in (FOLDER / "README.md").read_text()


def test_its_workers_know_nothing_of_this_server_but_the_address() -> None:
    for program in ("stock.py", "card.js"):
        text = (FOLDER / program).read_text()
        assert "celeriac" not in text.lower()
        assert "ENGINE_REST" in text


def test_the_compose_file_runs_both_workers_beside_the_servers() -> None:
    services = yaml.safe_load((FOLDER / "compose.yml").read_text())["services"]
    assert set(services) == {"stock", "card"}
    for service in services.values():
        assert service["environment"]["ENGINE_REST"] == "http://api:8080/engine-rest"
        assert service["environment"]["KEY"].startswith("${CAMUNDA_KEY:?")
        # What an image is made from is there.
        build = service["build"]
        copied = [line.split()[1:-1] for line in build["dockerfile_inline"].splitlines() if line.startswith("COPY")]
        assert [name for names in copied for name in names if not (FOLDER / name).exists()] == []
        assert build["context"] == f"examples/{NAME}"
