"""The source tree, as the house tests read it."""

import fnmatch
import shutil
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
OURS = ["app", "db", "workers", "sdk", "tests", "benchmarks", "examples"]


def ignored_patterns() -> list[str]:
    lines = (ROOT / ".gitignore").read_text().splitlines()
    return [line.strip().strip("/") for line in lines if line.strip() and not line.startswith("#")]


def is_ignored(name: str) -> bool:
    return name == ".git" or any(fnmatch.fnmatch(name, pattern) for pattern in ignored_patterns())


def files(folder: Path, pattern: str) -> Iterator[Path]:
    """Files of ours under ``folder`` whose name matches; nothing that git ignores."""
    for path in sorted(folder.iterdir()):
        if is_ignored(path.name):
            continue
        if path.is_dir():
            yield from files(path, pattern)
        elif fnmatch.fnmatch(path.name, pattern):
            yield path


def copy_what_the_image_builder_gets(target: Path) -> None:
    """Copy what .dockerignore lets through: nothing but what `!name` lines name."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    for name in (line.removeprefix("!") for line in lines if line.startswith("!")):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target / name)
