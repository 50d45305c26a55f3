"""The workers' clients as their registries have them, fetched once from the lock files in this folder.

They lie in `.tools/camunda7` of this repository, which git ignores; tests/camunda_clients runs on them as well.
"""

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".tools" / "camunda7"
OLDEST_NODE = 20


class Missing(Exception):
    """This machine has no Node, or no npm."""


def javascript(program: Path, folder: Path) -> list[str]:
    """The command that runs a copy of the program in `folder`, where it finds its client. Raises Missing."""
    fetched = CACHE / "javascript"
    interpreter, npm = node()
    with once(fetched, HERE / "package-lock.json") as missing:
        if missing:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(HERE / name, fetched)
            run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], fetched)
    modules = folder / "node_modules"
    if not modules.exists():
        modules.symlink_to(fetched / "node_modules")
    return [interpreter, str(shutil.copy(program, folder))]


def node() -> tuple[str, str]:
    """Node and npm of this machine. Raises Missing."""
    found, npm = shutil.which("node"), shutil.which("npm")
    if found is None or npm is None or version(found) < OLDEST_NODE:
        raise Missing(f"the JavaScript worker needs Node {OLDEST_NODE} or newer with npm")
    return found, npm


def python(program: Path) -> list[str]:
    """The command that runs the program with an interpreter that has its client."""
    fetched = CACHE / "python"
    interpreter = fetched / "bin" / "python"
    with once(fetched, HERE / "requirements.lock") as missing:
        if missing:
            run([uv(), "venv", "--quiet", "--clear", "--python", sys.executable, fetched], HERE)
            run([uv(), "pip", "sync", "--python", interpreter, "--require-hashes", HERE / "requirements.lock"], HERE)
    return [str(interpreter), str(program)]


@contextmanager
def once(folder: Path, lock: Path) -> Iterator[bool]:
    """True when `folder` does not hold what the lock file says: it is empty then. Others wait meanwhile."""
    CACHE.mkdir(parents=True, exist_ok=True)
    made = folder / ".made"
    with (CACHE / f"{folder.name}.lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        missing = not made.exists() or made.read_bytes() != lock.read_bytes()
        if missing:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        yield missing
        shutil.copy(lock, made)


def run(command: list[str | Path], folder: Path) -> None:
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} failed:\n{answer.stdout}{answer.stderr}")


def uv() -> str:
    """The one that made the environment which this runs in."""
    candidates = ["uv", *(str(CACHE.parent / part / "uv") for part in ("bin", "lib/bin"))]
    return next(found for found in map(shutil.which, candidates) if found)


def version(node: str) -> int:
    """Its major version; 0 when it does not tell."""
    told = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    number = told.strip().removeprefix("v").partition(".")[0]
    return int(number) if number.isdecimal() else 0
