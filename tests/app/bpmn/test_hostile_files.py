"""Files that are made to hurt: each is refused with one finding, soon, and nothing of it is expanded or fetched."""

from __future__ import annotations

import resource
import socket
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from app.bpmn import markup
from app.bpmn.markup import Unreadable, parse
from app.bpmn.reader import read
from tests.app.bpmn.writing import HEAD, document, line, process, task

DOCTYPE = "the file has a document type or entities, which are not read"
BODY = (
    f'{HEAD}<bpmn:process id="p"><bpmn:documentation>{{}}</bpmn:documentation><bpmn:startEvent id="s"/></bpmn:process>'
    "</bpmn:definitions>"
)


def refusal(content: bytes) -> tuple[int, str]:
    """Line and message of the one finding about a file that is not read."""
    reading = read(content)
    assert reading.models == ()
    (finding,) = reading.report.findings
    assert (finding.severity, finding.element) == ("error", None)
    return finding.line, finding.message


def entities(declarations: str, use: str = "") -> str:
    return f"<?xml version='1.0'?>\n<!DOCTYPE d [{declarations}]>\n{BODY.format(use)}"


@pytest.mark.parametrize(
    "text",
    [
        "<!DOCTYPE d>\n" + BODY.format(""),
        entities('<!ENTITY x SYSTEM "file:///etc/passwd">', "&x;"),
        entities('<!ENTITY % p SYSTEM "file:///etc/passwd"> %p;'),
        entities("".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10 if n else "lol"}">' for n in range(10)), "&a9;"),
        entities(f'<!ENTITY a "{"x" * 100_000}">', "&a;" * 10_000),
        '<!DOCTYPE d SYSTEM "http://127.0.0.1:9/x.dtd">\n' + BODY.format(""),
        '<!DOCTYPE d PUBLIC "-//x//y" "http://127.0.0.1:9/x.dtd">\n' + BODY.format(""),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_no_document_type_is_read_in_any_encoding(text: str, encoding: str) -> None:
    content = text.encode(encoding)
    if encoding.endswith(("le", "be")):
        content = "\ufeff".encode(encoding) + content
    assert refusal(content)[1] == DOCTYPE


def test_an_entity_that_nothing_declares_is_no_xml() -> None:
    assert refusal(BODY.format("&x;").encode()) == (1, "this is no XML: undefined entity")
    assert read(BODY.format("&lt;&#65;").encode()).report.errors == []


def test_nobody_is_called_and_no_file_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    canary = tmp_path / "canary.dtd"
    canary.write_text('<!ENTITY y "read">')
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/x"
        for place in (canary.as_uri(), url):
            for text in (
                entities(f'<!ENTITY % p SYSTEM "{place}"> %p;', "&y;"),
                f'<!DOCTYPE d SYSTEM "{place}">{BODY}',
            ):
                assert "read" not in str(read(text.encode()).models)
                assert refusal(text.encode())[1] == DOCTYPE
        included = BODY.format(f'<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="{url}"/>')
        schema = included.replace("<bpmn:process", f'<bpmn:import importType="x" location="{url}"/><bpmn:process')
        assert read(schema.encode()).report.errors == []
        with pytest.raises(TimeoutError):
            listener.accept()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1", "windows-1252", "us-ascii"])
def test_files_of_the_usual_encodings_are_read(encoding: str) -> None:
    umlaut = "" if encoding == "us-ascii" else "Prüfung"
    declared = {"utf-8-sig": "utf-8"}.get(encoding, encoding)
    text = f"<?xml version='1.0' encoding='{declared}'?>" + BODY.replace('id="p"', f'id="p" name="{umlaut}"').format("")
    (model,) = read(text.encode(encoding)).models
    assert (model.graph.name or "") == umlaut


@pytest.mark.parametrize("encoding", ["utf-7", "x-unknown", "rot13", "utf-32", "base64", "idna", "shift_jis", "\u00fc"])
def test_files_of_other_encodings_are_refused(encoding: str) -> None:
    message = refusal(f"<?xml version='1.0' encoding='{encoding}'?>{BODY.format('')}".encode())[1]
    assert message.startswith(("this is no XML", "the file says that it has an encoding which is not known"))


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00", b"<", b"<a>", b"<a></b>", b"<a/><b/>", b"\xff\xfe", b"PK\x03\x04", b"<a b='1' b='2'/>", b"<x:a/>",
     b"<a>\x01</a>", b"<a>&#0;</a>", b"<a>\xc3\x28</a>", b"<a b=\"<\"/>"],
)  # fmt: skip
def test_what_is_no_xml_is_told_with_its_line(content: bytes) -> None:
    at, message = refusal(content)
    assert at >= 1
    assert message.startswith("this is no XML: ")


def test_the_line_of_broken_xml_is_where_it_breaks() -> None:
    assert refusal(b"<a>\n<b>\n</c>\n</a>") == (3, "this is no XML: mismatched tag")


LIMITS: list[tuple[str, Callable[[], bytes], str]] = [
    ("a million elements", lambda: b"<a>" + b"<a/>" * 1_000_000 + b"</a>", "the file has more than 100000 elements"),
    ("a large file", lambda: b"<a>" + b"x" * 5_000_000 + b"</a>", "the file has more than 4194304 bytes"),
    ("depth", lambda: b"<a>" * 100_000, "elements are nested more than 100 levels deep"),
    (
        "subprocesses in subprocesses",
        lambda: process("".join(f'<bpmn:subProcess id="s{n}">' for n in range(1000))),
        "elements are nested more than 100 levels deep",
    ),
    (
        "attributes",
        lambda: b"<a " + b" ".join(b'a%d=""' % n for n in range(100_000)) + b"/>",
        "an element has more than 200 attributes",
    ),
    (
        "an attribute",
        lambda: line(f'<bpmn:task id="a" name="{"n" * 10_000}"/>'),
        "an attribute has more than 8192 characters",
    ),
    ("an id of 50 MB", lambda: line(f'<bpmn:task id="{"i" * 50_000_000}"/>'), "the file has more than 4194304 bytes"),
]


@pytest.mark.parametrize("make, message", [limit[1:] for limit in LIMITS], ids=[limit[0] for limit in LIMITS])
def test_what_is_too_much_is_refused_soon_and_in_little_memory(make: Callable[[], bytes], message: str) -> None:
    content = make()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    tracemalloc.start()
    assert refusal(content)[1] == message
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 30, "bounded, and not quadratic"


def test_many_pieces_of_text_are_joined_once() -> None:
    root = parse(b"<a>" + b"0123456789<b/>" * 90_000 + b"</a>")
    assert len(root.text) == 900_000


def test_very_many_names_of_namespaces_are_no_problem() -> None:
    names = b" ".join(b'xmlns:n%d="urn:n"' % n for n in range(100_000))
    assert refusal(b"<a " + names + b"/>")[1] == "this is no BPMN 2.0 file: its root is not definitions"


def test_a_model_may_be_as_large_as_the_limits_say() -> None:
    deepest = markup.DEEPEST - 3
    opened = "".join(f'<bpmn:subProcess id="s{n}"><bpmn:startEvent id="b{n}"/>' for n in range(deepest))
    content = document(
        '<bpmn:process id="p"><bpmn:startEvent id="s"/>', opened, "</bpmn:subProcess>" * deepest, "</bpmn:process>"
    )
    messages = {error.message for error in read(content).report.errors}
    assert messages == {"no token can ever come here"}
    with pytest.raises(Unreadable):
        parse(b"<a>" * 101)


def test_names_of_elements_and_values_do_not_reach_a_shell_or_a_page_unmarked() -> None:
    """Messages are one line each, whatever the model says."""
    content = line(task("a").replace("do-a", "${a\n\nb()}" + "x" * 5000))
    (error,) = read(content).report.errors
    assert "\n" not in str(error)
    assert len(str(error)) < 500


@pytest.mark.timeout(30)
def test_a_file_full_of_nodes_that_nobody_reaches_is_told_of_soon() -> None:
    tasks = "".join(f'<bpmn:task id="t{number}"/>' for number in range(40_000))
    found = read(process(f'<bpmn:startEvent id="s"/>{tasks}')).report.findings
    assert sum(finding.message == "no token can ever come here" for finding in found) == 40_000
