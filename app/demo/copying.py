"""Copies one file so that a crash at any point leaves either no copy or the whole one."""

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.demo.source import CHUNK_BYTES


@dataclass(frozen=True)
class Copied:
    """What the worker reports: size in bytes and SHA-256 in hex of what it wrote."""

    size: int
    sha256: str


def copy_file(source: Path, target: Path, attempt: str, check: Callable[[], None], pause_ms: int = 0) -> Copied:
    """Copy in chunks to a name of this attempt, fsync, rename.

    `attempt` is in the temporary name, so two workers that copy the same file (one of them a zombie) never write into
    the same one. `check` is called before every chunk and raises when the lease is gone; the temporary file then goes.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    # The temporary name must not be longer than a file name may be, however long the target's own name is.
    unfinished = target.parent / f".{attempt}.copying"
    try:
        copied = write_chunks(source, unfinished, check, pause_ms)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    fsync_folder(target.parent)
    return copied


def write_chunks(source: Path, unfinished: Path, check: Callable[[], None], pause_ms: int) -> Copied:
    digest, size = hashlib.sha256(), 0
    with source.open("rb") as reading, unfinished.open("wb") as writing:
        while chunk := reading.read(CHUNK_BYTES):
            check()
            writing.write(chunk)
            digest.update(chunk)
            size += len(chunk)
        # A slow disk, for runs over a few small files in which somebody is to be killed in the middle.
        time.sleep(pause_ms / 1000)
        writing.flush()
        os.fsync(writing.fileno())
    return Copied(size, digest.hexdigest())


def fsync_folder(folder: Path) -> None:
    """A rename is durable when the folder is on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
