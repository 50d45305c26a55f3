"""The demo itself: real servers, real trouble, and an account that can say no."""

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import Connection, text

from app.cli.main import run
from app.demo import run as demo
from app.demo.account import Findings, compare
from app.dev.processes import Process, console_command
from app.dev.waiting import wait_until

FILES = 48
# Slow enough that the trouble meets workers in the middle of a copy, quick enough for a test.
PAUSE = "--pause-ms=150"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    for number in range(FILES):
        file = folder / f"folder {number % 5}" / f"file {number}.bin"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(os.urandom(number * 997))
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_folder_is_copied_and_the_account_holds(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    command = [console_command("celeriac"), "demo", "--source", source, "--target", target, PAUSE, "--json"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=150)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.count("\n") == 1
    account = json.loads(answer.stdout)
    assert list(account) == [
        *("files", "completed", "lost", "doubled", "leases_lost", "stale_writes_refused", "seconds"),
    ]
    assert (account["files"], account["completed"], account["lost"], account["doubled"]) == (FILES, FILES, 0, 0)
    assert account["leases_lost"] >= 1
    assert account["stale_writes_refused"] >= 1
    assert contents(target) == contents(source)
    for happened in (
        *("SIGSTOP", "SIGKILL", "a child of fleet-2 was killed", "Redis was flushed", "Postgres was stopped"),
        *("worker-1 reported with an old fencing token", "fleet-1 reported with an old fencing token"),
    ):
        assert happened in answer.stderr


def test_a_changed_copy_is_lost_a_second_completion_is_doubled_and_both_are_exit_code_1(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def tampered(conn: Connection, source: Path, target: Path, diaries: Path) -> Findings:
        (target / "folder 1" / "file 1.bin").write_bytes(b"something else")
        (target / "folder 2" / "file 2.bin").unlink()
        conn.execute(
            text(
                "update celeriac.task set ended_at = ended_at where id ="
                " (select task_id from demo.copy_order where path = 'folder 1/file 6.bin')"
            )
        )
        return compare(conn, source, target, diaries)

    monkeypatch.setattr(demo, "compare", tampered)
    code = run(["demo", "--source", str(source), "--files", "30", PAUSE, "--json"])
    account = json.loads(capsys.readouterr().out)
    assert code == 1
    assert (account["files"], account["lost"], account["doubled"]) == (30, 2, 1)


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder for temporary files that the embedded Postgres can reach, which pytest's own is not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_stops_everything_and_leaves_nothing(
    source: Path, tmp_path: Path, temporary: Path, number: signal.Signals
) -> None:
    env = os.environ | {"TMPDIR": str(temporary)}
    command = [console_command("celeriac"), "demo", "--source", source, "--pause-ms=5000"]
    with Process(command, tmp_path / "log", name="demo", env=env) as process:
        process.wait_for_output("starting 4 workers", 60)
        started = psutil.Process(process.pid).children(recursive=True)
        process.send(number)
        assert process.wait(60) == 130
    wait_until(lambda: not any(child.is_running() for child in started), what="the end of all servers")
    assert [entry.name for entry in temporary.iterdir() if "demo" in entry.name or "-postgres-" in entry.name] == []


@pytest.mark.parametrize("target", ["source/inside", "full"])
def test_a_target_that_would_mix_with_other_files_is_refused(
    source: Path, tmp_path: Path, target: str, capsys: pytest.CaptureFixture[Any]
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "keep me").touch()
    before = contents(tmp_path)
    assert run(["demo", "--source", str(source), "--target", str(tmp_path / target)]) == 2
    assert "--target" in capsys.readouterr().err
    assert contents(tmp_path) == before


def test_an_empty_source_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[Any]) -> None:
    (tmp_path / "nothing").mkdir()
    assert run(["demo", "--source", str(tmp_path / "nothing")]) == 2
    assert "--source" in capsys.readouterr().err
