"""`celeriac bpmn check`: one file with all that is wrong, a folder with what would deploy and how."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from app.cli.main import run
from tests.app.bpmn.writing import document, extended, line, task

Check = Callable[..., tuple[int, str, str]]

GOOD = line(task("a"))
JAVA = line('<bpmn:serviceTask id="a" camunda:class="org.acme.Charge"/>')
LISTENER = line(task("a", extended('<camunda:executionListener event="start" class="org.acme.L"/>')))
BOTH = line(f'<bpmn:serviceTask id="a" camunda:class="x">{extended("<camunda:executionListener/>")}</bpmn:serviceTask>')
LATER = line('<bpmn:callActivity id="a"/>', '<bpmn:task id="b" \x1b="1"/>').replace(b"\x1b", b"x")
TWICE = line('<bpmn:callActivity id="a"/>', '<bpmn:callActivity id="b"/>')


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]) -> Check:
    def command(*arguments: object) -> tuple[int, str, str]:
        code = run(["bpmn", "check", *map(str, arguments)])
        written = capsys.readouterr()
        return code, written.out, written.err

    return command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in {
        "good.bpmn": GOOD, "java.bpmn": JAVA, "deep/listener.bpmn20.xml": LISTENER, "both.BPMN": BOTH,
        "later.bpmn": LATER, "twice.bpmn": TWICE, "notes.txt": b"no model", "other.xml": b"<a/>",
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    return tmp_path


def test_a_good_model_can_be_deployed(check: Check, folder: Path) -> None:
    file = folder / "good.bpmn"
    assert check(file) == (0, f"{file} can be deployed: p\n", "")


def test_everything_that_is_wrong_is_told_with_file_line_and_element(check: Check, folder: Path) -> None:
    file = folder / "twice.bpmn"
    assert check(file) == (
        1,
        f"{file}:4: error: a: call activities are not there yet\n"
        f"{file}:5: error: b: call activities are not there yet\n"
        f"{file} cannot be deployed: 2 errors\n",
        "",
    )


def test_options_decide_and_the_ones_that_help_are_named(check: Check, folder: Path) -> None:
    file = folder / "both.BPMN"
    code, out, _ = check(file)
    assert (code, out.splitlines()[-1]) == (1, f"{file} can be deployed with --delegates topics --ignore-unrunnable")
    assert check(file, "--delegates", "topics")[0] == 1
    code, out, _ = check(file, "--delegates", "topics", "--ignore-unrunnable")
    assert code == 0
    assert out.splitlines() == [
        f"{file}:4: warning: a: an execution listener is ignored",
        f"{file}:4: warning: a: class became an external task with the topic x",
        f"{file} can be deployed: p",
    ]


def test_a_folder_gives_a_report_of_what_would_move(check: Check, folder: Path) -> None:
    code, out, _ = check(folder)
    assert code == 1
    lines = out.splitlines()
    assert "yes  good.bpmn" in lines
    assert "no   later.bpmn  line 4: a: call activities are not there yet" in lines
    assert "no   twice.bpmn  line 4: a: call activities are not there yet (and 1 more)" in lines
    assert any(one.startswith("--delegates topics java.bpmn  line 4: a: Java code cannot be run") for one in lines)
    assert any(one.startswith("--ignore-unrunnable deep/listener.bpmn20.xml") for one in lines)
    assert [one.strip() for one in lines[lines.index("") + 1 :]] == [
        "1 of 6 can be deployed as they are",
        "2 of 6 can be deployed with --delegates topics",
        "2 of 6 can be deployed with --ignore-unrunnable",
        "4 of 6 can be deployed with --delegates topics --ignore-unrunnable",
        "2 of 6 cannot be deployed:",
        "2 × call activities are not there yet",
        "",
        "Topics of external tasks, and how many of the models that can be deployed have them:",
        "2 × do-a",
        "",
        "Java code and decisions that --delegates topics makes topics of; workers for them are to be written:",
        "1 × org.acme.Charge",
        "1 × x",
    ]


def test_a_report_counts_from_the_options_that_it_was_given(check: Check, folder: Path) -> None:
    _, out, _ = check(folder, "--delegates", "topics")
    assert [line.strip() for line in out.splitlines() if " of 6 " in line] == [
        "2 of 6 can be deployed with --delegates topics",
        "4 of 6 can be deployed with --delegates topics --ignore-unrunnable",
        "2 of 6 cannot be deployed:",
    ]


def test_why_a_model_cannot_be_deployed_is_what_no_option_helps_against(check: Check, tmp_path: Path) -> None:
    (tmp_path / "both.bpmn").write_bytes(
        line('<bpmn:serviceTask id="a" camunda:class="x"/>', '<bpmn:callActivity id="b"/>')
    )
    _, out, _ = check(tmp_path)
    assert [line.strip() for line in out.splitlines()[-2:]] == [
        "1 of 1 cannot be deployed:",
        "1 × call activities are not there yet",
    ]


def test_a_folder_of_good_models_is_a_success(check: Check, tmp_path: Path) -> None:
    (tmp_path / "one.bpmn").write_bytes(GOOD)
    assert check(tmp_path)[0] == 0


def test_json_has_all_findings_and_the_fewest_options(check: Check, folder: Path) -> None:
    code, out, _ = check(folder, "--json")
    told = json.loads(out)
    by_file = {one["file"]: one for one in told["files"]}
    assert (code, told["deployable"], len(by_file)) == (1, 1, 6)
    assert by_file["good.bpmn"] == {
        "file": "good.bpmn", "deployable": True, "processes": ["p"], "findings": [],
        "options": {"delegates": "error", "unrunnable": "error"}, "topics": ["do-a"], "made_topics": [], "stated": True,
    }  # fmt: skip
    assert (by_file["java.bpmn"]["topics"], by_file["java.bpmn"]["made_topics"]) == (["org.acme.Charge"],) * 2
    assert told["beside"] == {}
    assert by_file["java.bpmn"]["options"] == {"delegates": "topics", "unrunnable": "error"}
    assert by_file["later.bpmn"]["options"] is None
    assert by_file["later.bpmn"]["findings"] == [
        {"severity": "error", "element": "a", "line": 4, "message": "call activities are not there yet"}
    ]


def test_what_is_not_there_or_no_model_is_told(check: Check, tmp_path: Path) -> None:
    assert check(tmp_path / "gone.bpmn")[0] == 1
    assert "there is no file" in check(tmp_path / "gone.bpmn")[2]
    assert "there is no model in" in check(tmp_path)[2]
    assert check(tmp_path, "--delegates", "magic")[0] == 2
    (tmp_path / "text.bpmn").write_bytes(b"not xml")
    assert check(tmp_path / "text.bpmn")[1].startswith(f"{tmp_path}/text.bpmn:1: error: this is no XML")


def test_models_that_camundas_deployment_leaves_out_are_counted(check: Check, tmp_path: Path) -> None:
    (tmp_path / "said.bpmn").write_bytes(GOOD)
    (tmp_path / "silent.bpmn").write_bytes(GOOD.replace(b' isExecutable="true"', b""))
    code, out, _ = check(tmp_path)
    assert code == 0
    assert (
        '    1 of these without isExecutable="true": left out at /engine-rest, not by celeriac deploy'
        in out.splitlines()
    )
    assert '"stated":false' in check(tmp_path, "--json")[1]


def test_what_else_lies_in_the_folder_is_counted(check: Check, tmp_path: Path) -> None:
    (tmp_path / "one.bpmn").write_bytes(GOOD)
    for name in ("a.dmn", "B.DMN", "c.form", "d.txt"):
        (tmp_path / name).touch()
    assert check(tmp_path)[1].splitlines()[-1] == "Beside the models, and not read: 2 × *.dmn, 1 × *.form"
    assert '"beside":{".dmn":2,".form":1}' in check(tmp_path, "--json")[1]


def test_a_file_that_cannot_be_read_does_not_hide_the_others(check: Check, tmp_path: Path) -> None:
    (tmp_path / "gone.bpmn").symlink_to("nowhere")
    (tmp_path / "good.bpmn").write_bytes(GOOD)
    (tmp_path / "around").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe.bpmn")
    code, out, _ = check(tmp_path)
    assert (code, out.splitlines()[:2]) == (
        1,
        ["no   gone.bpmn  line 1: the file cannot be read: No such file or directory", "yes  good.bpmn"],
    )
    assert "    1 of 2 can be deployed as they are" in out


def test_names_of_files_are_printed_on_one_line_whatever_bytes_they_have(check: Check, tmp_path: Path) -> None:
    (tmp_path / "new\nline.bpmn").write_bytes(GOOD)
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/n\xffme.bpmn")).write_bytes(GOOD)
    assert check(tmp_path)[1].splitlines()[:2] == ["yes  new \u21b5 line.bpmn", "yes  n\ufffdme.bpmn"]
    assert [one["file"] for one in json.loads(check(tmp_path, "--json")[1])["files"]] == [
        "new\nline.bpmn",
        "n\ufffdme.bpmn",
    ]


def test_a_huge_file_is_not_read_to_its_end(check: Check, tmp_path: Path) -> None:
    with (tmp_path / "huge.bpmn").open("wb") as huge:
        huge.truncate(1 << 40)
    assert "the file has more than 4194304 bytes" in check(tmp_path)[1]


def test_control_characters_of_a_model_do_not_reach_the_terminal(check: Check, tmp_path: Path) -> None:
    (tmp_path / "x.bpmn").write_bytes(document('<bpmn:process id="p&#x85;&#x9b;31m"/>'))
    out = check(tmp_path / "x.bpmn")[1]
    assert "\x9b" not in out
    assert "\x85" not in out
