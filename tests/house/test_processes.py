import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from app.dev.processes import Process, ProcessEnded
from app.dev.waiting import ConditionNotMet, wait_until

FOREVER = "import time; print('ready', flush=True); time.sleep(600)"
WITH_A_CHILD = "import subprocess; subprocess.Popen(['sleep', '600']); " + FOREVER


def python(script: str, log: Path) -> Process:
    return Process([sys.executable, "-c", script], log)


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_process_is_stopped_by_the_signal_it_knows(tmp_path: Path) -> None:
    with python(FOREVER, tmp_path / "log") as process:
        process.wait_for_output("ready")
        assert process.stop() == -signal.SIGTERM


def test_a_process_that_ignores_the_stop_signal_is_killed(tmp_path: Path) -> None:
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + FOREVER
    with python(deaf, tmp_path / "log") as process:
        process.wait_for_output("ready")
        assert process.stop(seconds=0.1) == -signal.SIGKILL


@pytest.mark.parametrize("end", [Process.stop, Process.kill])
def test_children_end_with_their_process(end: object, tmp_path: Path) -> None:
    with python(WITH_A_CHILD, tmp_path / "log") as process:
        process.wait_for_output("ready")
        (child,) = psutil.Process(process.pid).children()
        assert callable(end)
        end(process)
        wait_until(lambda: is_gone(child.pid))


def test_a_frozen_process_can_be_stopped(tmp_path: Path) -> None:
    with python(FOREVER, tmp_path / "log") as process:
        process.wait_for_output("ready")
        process.freeze()
        wait_until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
        assert process.stop() == -signal.SIGTERM


def test_a_thawed_process_goes_on(tmp_path: Path) -> None:
    with python(FOREVER, tmp_path / "log") as process:
        process.wait_for_output("ready")
        process.freeze()
        process.thaw()
        wait_until(lambda: psutil.Process(process.pid).status() != psutil.STATUS_STOPPED)
        assert process.is_running


def test_a_stopped_process_starts_again_and_its_log_goes_on(tmp_path: Path) -> None:
    with python(FOREVER, tmp_path / "log") as process:
        process.wait_for_output("ready")
        first = process.pid
        process.kill()
        process.start()
        process.wait_for(lambda: process.output().count("ready") == 2, what="the second greeting")
        assert process.pid != first


def test_waiting_for_a_process_that_ends_tells_what_it_wrote(tmp_path: Path) -> None:
    with python("print('no such table'); raise SystemExit(3)", tmp_path / "log") as process:
        with pytest.raises(ProcessEnded, match=r"(?s)ended with 3 .*no such table"):
            process.wait_for_output("ready")
        assert process.exit_code == 3


def test_waiting_has_an_end() -> None:
    with pytest.raises(ConditionNotMet, match="a miracle"):
        wait_until(lambda: False, seconds=0, what="a miracle")


def test_an_unknown_command_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    before = set(psutil.Process().children())
    with pytest.raises(FileNotFoundError):
        Process(["/nowhere/at-all"], tmp_path / "log").start()
    assert set(psutil.Process().children()) == before


PARENT = """
import sys, time
from pathlib import Path
from app.dev.processes import Process
process = Process([sys.executable, "-c", {child!r}], Path(sys.argv[1])).start()
process.wait_for_output("ready")
print(process.pid, flush=True)
time.sleep(600)
"""


def test_processes_die_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    script = PARENT.format(child=WITH_A_CHILD)
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "log")], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        family = [child, *child.children()]
        assert len(family) == 2
        parent.kill()
        wait_until(lambda: all(is_gone(member.pid) for member in family))


def test_what_a_dead_process_said_is_told_without_what_its_log_held_before(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("of another time")
    with python("print('of today')", log) as process, pytest.raises(ProcessEnded) as ended:
        process.wait_for(lambda: False)
    assert "of today" in str(ended.value)
    assert "of another time" not in str(ended.value)
