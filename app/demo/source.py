"""What is copied: the regular files below a folder, and what their content is."""

import hashlib
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CHUNK_BYTES = 1024 * 1024
# Caches come and go while Python runs, and what others installed is not the standard library.
SKIPPED_FOLDERS = frozenset({"__pycache__", "site-packages"})


@dataclass(frozen=True)
class SourceFile:
    """One file to copy: `path` is relative to the source, with '/' on every system."""

    path: str
    size: int


def standard_library() -> Path:
    """The folder of the running Python's standard library, about 2 000 files."""
    return Path(sysconfig.get_path("stdlib"))


def list_files(source: Path, at_most: int | None = None) -> list[SourceFile]:
    """The regular files below `source` in a fixed order; links and names that are not text are left out."""
    found = []
    for file in walk(source):
        path = file.relative_to(source).as_posix()
        if not file.is_symlink() and file.is_file() and is_text(path):
            found.append(SourceFile(path, file.stat().st_size))
            if len(found) == at_most:
                break
    return found


def walk(folder: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            if entry.name not in SKIPPED_FOLDERS:
                yield from walk(entry)
        else:
            yield entry


def is_text(path: str) -> bool:
    """Whether a file name can be written in JSON; Linux also allows bytes that are no text."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def sha256_of(file: Path) -> str:
    """The SHA-256 of a file's content, in hex."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
