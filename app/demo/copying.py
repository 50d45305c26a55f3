"""Copies one file so that a crash at any point leaves either no copy or the whole one."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.demo.source import CHUNK_BYTES

UNFINISHED = ".copying"


@dataclass(frozen=True)
class Copied:
    """What the worker reports: size in bytes and SHA-256 in hex of what it wrote."""

    size: int
    sha256: str


def copy_file(
    source: Path, target: Path, attempt: str, check: Callable[[], None], written: Callable[[], None]
) -> Copied:
    """Copy in chunks to a name of this attempt, fsync, rename.

    `attempt` is in the temporary name, so two workers that copy the same file (one of them a zombie) never write into
    the same one. `check` is called before every chunk and raises when the lease is gone; the temporary file then goes.
    `written` is called when all chunks are written, before they are made durable and given their name.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    # The temporary name must not be longer than a file name may be, however long the target's own name is.
    unfinished = target.parent / f".{attempt}{UNFINISHED}"
    try:
        copied = write_chunks(source, unfinished, check)
        written()
        fsync(unfinished)
        unfinished.replace(target)
        fsync(target.parent)
    finally:
        unfinished.unlink(missing_ok=True)
    return copied


def write_chunks(source: Path, unfinished: Path, check: Callable[[], None]) -> Copied:
    digest, size = hashlib.sha256(), 0
    with source.open("rb") as reading, unfinished.open("wb") as writing:
        while chunk := reading.read(CHUNK_BYTES):
            check()
            writing.write(chunk)
            digest.update(chunk)
            size += len(chunk)
    return Copied(size, digest.hexdigest())


def remove_unfinished(target: Path) -> int:
    """Remove the temporary files of workers that were killed, once all workers have ended; returns how many."""
    left = list(target.rglob(f".*{UNFINISHED}"))
    for file in left:
        file.unlink()
    return len(left)


def fsync(path: Path) -> None:
    """Bring a file or a folder to disk; a rename is durable when its folder is."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
