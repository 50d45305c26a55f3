"""Where things are, what they are called, and what must never be written into them."""

import json
import re
from pathlib import Path

import pytest

from tests.house.tree import OURS, ROOT, files, is_ignored

AT_THE_ROOT = {
    ".ci",
    ".dockerignore",
    ".gitignore",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Dockerfile",
    "LICENSE",
    "Makefile",
    "README.md",
    "app",
    "benchmarks",
    "db",
    "docker-compose.yml",
    "docs",
    "examples",
    "pyproject.toml",
    "requirements.lock",
    "requirements.server.lock",
    "sdk",
    "tests",
    "workers",
}
# Names that say nothing: a reader has to open the file to learn what is in it.
EMPTY_WORDS = {"util", "utils", "helper", "helpers", "common", "misc", "core", "base", "manager", "service", "handler"}
OF_THE_SERVER = ["requirements.lock", "requirements.server.lock"]
LOCKS = [*OF_THE_SERVER, "examples/camunda7/requirements.lock"]


def python_files() -> list[Path]:
    return [path for folder in OURS if (ROOT / folder).is_dir() for path in files(ROOT / folder, "*.py")]


def test_nothing_stray_lies_at_the_root() -> None:
    present = {path.name for path in ROOT.iterdir() if not is_ignored(path.name)}
    assert present <= AT_THE_ROOT
    assert present >= AT_THE_ROOT - {"benchmarks", "examples"}


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert [path for path in python_files() if set(path.stem.strip("_").split("_")) & EMPTY_WORDS] == []


def test_no_class_has_a_name_that_says_nothing() -> None:
    pattern = re.compile(r"^\s*class \w*(Util|Utils|Helper|Manager|Service|Base)\b", re.MULTILINE)
    assert [path for path in python_files() if pattern.search(path.read_text())] == []


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_pins_every_package_with_hashes_and_names_no_host(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert "://" not in text
    entries = re.split(r"\n(?=\S)", text.strip())
    assert all(re.match(r"[a-z0-9.-]+==\S+", entry) and "--hash=sha256:" in entry for entry in entries)


def test_the_lock_of_javascript_pins_every_package_with_a_hash_and_names_no_host() -> None:
    text = (ROOT / "examples/camunda7/package-lock.json").read_text()
    assert "://" not in text
    packages = json.loads(text)["packages"]
    assert [name for name, package in packages.items() if name and not package["integrity"].startswith("sha512-")] == []


def test_the_server_lock_is_a_part_of_the_whole_lock() -> None:
    whole, server = (packages((ROOT / lock).read_text()) for lock in OF_THE_SERVER)
    assert server.items() <= whole.items()


def packages(lock: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", lock, re.MULTILINE))


def test_the_two_distributions_carry_the_same_licence() -> None:
    assert (ROOT / "sdk/LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_every_folder_of_tests_is_named_after_what_it_tests() -> None:
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and not is_ignored(path.name)}
    servers = {"api", "app", "camunda", "camunda_clients", "cli", "db", "demo", "workers"}
    sdk = {"durable", "fleet", "sdk", "testing"}
    assert folders <= servers | sdk | {"examples", "faults", "house", "models", "proof"}
