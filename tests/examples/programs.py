"""The examples as the tests reach them: their files, and their command."""

import importlib
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import pytest

from app.dev.processes import Process
from tests.house.tree import ROOT

EXAMPLES = ROOT / "examples"


def run(name: str) -> str:
    """What `make example NAME=…` prints; it must end well. Nothing that it started is left, however it ended."""
    with tempfile.TemporaryDirectory() as folder:
        said, log = Path(folder, "said"), Path(folder, "log")
        command = ["/bin/sh", "-c", 'exec "$0" "$1" >"$2"', sys.executable, EXAMPLES / name / "run.py", said]
        with Process(command, log, name=name) as example:
            code = example.wait(170)
        assert code == 0, said.read_text() + example.output()
        return said.read_text()


def module(name: str, file: str, patch: pytest.MonkeyPatch) -> ModuleType:
    """A file of an example, imported as its own programs import it."""
    patch.syspath_prepend(str(EXAMPLES / name))
    for known in [path.stem for path in (EXAMPLES / name).glob("*.py")]:
        patch.delitem(sys.modules, known, raising=False)
    return importlib.import_module(file)
