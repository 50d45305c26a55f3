"""Files of a deployment as a form: split at the boundary, byte for byte, and refused when it is no such form."""

from __future__ import annotations

import httpx
import pytest

from app.api.form import MOST_PARTS, read_form, read_parts
from app.api.problems import Problem

TYPE = "multipart/form-data; boundary=fence"


def part(content: bytes, disposition: bytes = b'form-data; name="files"; filename="a.bpmn"') -> bytes:
    return b"--fence\r\nContent-Disposition: " + disposition + b"\r\n\r\n" + content + b"\r\n"


END = b"--fence--\r\n"


@pytest.mark.parametrize(
    "content", [b"", b"x", b"\r\n", b"\r\n\r\n--fenc", b"x--fence", b"\x00\xff" * 100, b"a\r\n--other\r\nb"]
)
def test_a_file_comes_back_byte_for_byte(content: bytes) -> None:
    (file,) = read_form(TYPE, part(content) + END)
    assert (file.name, file.content) == ("a.bpmn", content)


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        (b"a.bpmn", "a.bpmn"),
        ("späße.bpmn".encode(), "späße.bpmn"),
        (b"../../etc/passwd", "passwd"),
        (rb"C:\\models\\a.bpmn", "a.bpmn"),
        (rb"a\"b.bpmn", 'a"b.bpmn'),
        (b"a;b=c.bpmn", "a;b=c.bpmn"),
    ],
)
def test_of_a_name_its_last_part_counts(sent: bytes, name: str) -> None:
    (file,) = read_form(TYPE, part(b"x", b'form-data; name="files"; filename="' + sent + b'"') + END)
    assert file.name == name


def test_what_httpx_and_curl_send_is_read() -> None:
    files = {"model": ("a.bpmn", b"one"), "other": ("b.txt", b"two\r\n", "text/plain")}
    request = httpx.Request("POST", "http://api", files=files)
    read = read_form(request.headers["content-type"], request.read())
    assert [(file.name, file.content) for file in read] == [("a.bpmn", b"one"), ("b.txt", b"two\r\n")]
    quoted = read_form(
        'multipart/form-data; charset=utf-8; boundary="a b"', part(b"x").replace(b"fence", b"a b") + b"--a b--"
    )
    assert quoted[0].content == b"x"


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        ("multipart/form-data", part(b"x") + END, 400),
        ('multipart/form-data; boundary=""', part(b"x") + END, 400),
        (f"multipart/form-data; boundary={'x' * 71}", part(b"x") + END, 400),
        (TYPE, b"", 400),
        (TYPE, part(b"x"), 400),
        (TYPE, b"before" + part(b"x") + END, 400),
        (TYPE, b"--fence\r\nno end of headers\r\n" + END, 400),
        (TYPE, b"--fence\r\n" + b"X: y\r\n" * 2000 + b"\r\nx\r\n" + END, 400),
        (TYPE, part(b"topics", b'form-data; name="delegates"') + END, 422),
        (TYPE, part(b"x", b'form-data; filename=""') + END, 422),
        (TYPE, part(b"x", b'form-data; filename="\xff"') + END, 422),
        (TYPE, part(b"x", b'form-data; filename="a\x00b"') + END, 422),
        (TYPE, part(b"x", b'form-data; filename="' + b"n" * 256 + b'"') + END, 422),
        (TYPE, part(b"x") * (MOST_PARTS + 1) + END, 422),
    ],
)
def test_what_is_no_form_of_files_is_refused(content_type: str, body: bytes, status: int) -> None:
    with pytest.raises(Problem) as refused:
        read_form(content_type, body)
    assert refused.value.status == status


def test_many_fences_are_no_more_work_than_their_bytes() -> None:
    with pytest.raises(Problem):
        read_form(TYPE, b"\r\n--fence" * 400_000)


HOSTILE = {
    "entities": b'<!DOCTYPE d [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]><definitions>&b;</definitions>',
    "another encoding": '<?xml version="1.0" encoding="UTF-16"?><!DOCTYPE x SYSTEM "file:///etc/passwd"><x/>'.encode(
        "utf-16"
    ),
    "deep": b"<a>" * 100_000,
    "wide": b"<definitions>" + b"<a/>" * 200_000 + b"</definitions>",
    "attributes": b"<definitions " + b" ".join(b'a%d=""' % number for number in range(100_000)) + b"/>",
    "a long id": b'<definitions id="' + b"x" * 3_000_000 + b'"/>',
    "no bpmn": b"<html/>",
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_files_are_refused_and_nothing_is_kept(api: httpx.AsyncClient, name: str) -> None:
    """Case B68 and its kind."""
    answered = await api.post(
        "/v1/process-definitions", content=HOSTILE[name], headers={"Content-Type": "application/xml"}
    )
    assert (answered.status_code, answered.json()["code"]) == (422, "invalid")
    assert 1 <= len(answered.json()["findings"]) <= 1000
    assert (await api.get("/v1/process-definitions")).json()["definitions"] == []


async def test_what_is_too_large_or_of_another_kind_is_refused_before_it_is_read(api: httpx.AsyncClient) -> None:
    for headers, status in (
        ({"Content-Type": "application/json"}, 415),
        ({}, 415),
        ({"Content-Type": "application/xml", "Content-Encoding": "gzip"}, 415),
    ):
        assert (await api.post("/v1/process-definitions", content=b"<x/>", headers=headers)).status_code == status
    large = b"<" + b"x" * (5 << 20)
    answered = await api.post("/v1/process-definitions", content=large, headers={"Content-Type": "application/xml"})
    assert answered.status_code == 413
    for query in ({"delegates": "yes"}, {"no_such": "1"}):
        refused = await api.post(
            "/v1/process-definitions", params=query, content=b"<x/>", headers={"Content-Type": "application/xml"}
        )
        assert refused.status_code == 422


@pytest.mark.parametrize(
    ("said", "field", "file_name"),
    [
        (b'form-data; name="deployment-name"', "deployment-name", None),
        (b"form-data; name=data; filename=a.bpmn", "data", "a.bpmn"),
        (b'form-data; filename="a.bpmn"; name="data"', "data", "a.bpmn"),
        (b'form-data; name="data"; filename="x"; filename*=utf-8\'\'sp%C3%A4%C3%9Fe.bpmn', "data", "späße.bpmn"),
        (b'form-data; filename="a.bpmn"', "", "a.bpmn"),
        (b'form-data; name="a; filename=b"', "a; filename=b", None),
    ],
)
def test_texts_and_files_are_told_apart(said: bytes, field: str, file_name: str | None) -> None:
    (one,) = read_parts(TYPE, part("ä".encode(), said) + END)
    assert (one.field, one.file_name, one.text) == (field, file_name, "ä")


def test_the_type_of_a_part_is_what_it_says_and_a_text_is_utf_8() -> None:
    (one,) = read_parts(TYPE, part(b"\xff", b'form-data; name="data"\r\nContent-Type: text/plain; charset=x') + END)
    assert one.media_type == "text/plain; charset=x"
    with pytest.raises(Problem):
        _ = one.text
