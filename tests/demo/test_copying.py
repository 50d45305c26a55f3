"""The handler of the demo and the files it is for."""

import hashlib
import os
from pathlib import Path

import pytest

from app.demo.copying import Copied, copy_file
from app.demo.source import CHUNK_BYTES, list_files, standard_library


def nothing() -> None:
    return None


def test_a_copy_has_the_content_size_and_hash_of_its_source(tmp_path: Path) -> None:
    content = os.urandom(2 * CHUNK_BYTES + 17)
    (tmp_path / "source").write_bytes(content)
    target = tmp_path / "deep" / "er" / "copy"
    copied = copy_file(tmp_path / "source", target, "a1", nothing, nothing)
    assert copied == Copied(len(content), hashlib.sha256(content).hexdigest())
    assert target.read_bytes() == content
    assert list(target.parent.iterdir()) == [target]


def test_an_empty_file_is_copied(tmp_path: Path) -> None:
    (tmp_path / "source").touch()
    assert copy_file(tmp_path / "source", tmp_path / "copy", "a1", nothing, nothing).size == 0
    assert (tmp_path / "copy").read_bytes() == b""


def test_a_lost_lease_stops_the_copy_before_the_next_chunk_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(bytes(3 * CHUNK_BYTES))
    checks = iter([None, LookupError("lease lost")])

    def check() -> None:
        if (reason := next(checks)) is not None:
            raise reason

    (tmp_path / "target").mkdir()
    with pytest.raises(LookupError):
        copy_file(tmp_path / "source", tmp_path / "target" / "copy", "a1", check, nothing)
    assert list((tmp_path / "target").iterdir()) == []


def test_until_it_is_durable_a_copy_does_not_have_its_name(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"x")
    seen: list[bool] = []
    copy_file(tmp_path / "source", tmp_path / "copy", "a1", nothing, lambda: seen.append((tmp_path / "copy").exists()))
    assert seen == [False]


def test_two_workers_on_one_file_do_not_write_into_the_same_temporary_one(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"content")

    def another_worker() -> None:
        copy_file(tmp_path / "source", tmp_path / "copy", "a2", nothing, nothing)

    copy_file(tmp_path / "source", tmp_path / "copy", "a1", nothing, another_worker)
    assert (tmp_path / "copy").read_bytes() == b"content"


def test_links_caches_and_names_that_are_no_text_are_not_in_the_list(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"a")
    (tmp_path / "ä ö.txt").write_bytes(b"bb")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").touch()
    (tmp_path / "link").symlink_to(tmp_path / "a.py")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")).touch()
    assert {file.path: file.size for file in list_files(tmp_path)} == {"a.py": 1, "ä ö.txt": 2}
    assert len(list_files(tmp_path, at_most=1)) == 1


def test_the_standard_library_is_worth_copying() -> None:
    assert len(list_files(standard_library(), at_most=500)) == 500
