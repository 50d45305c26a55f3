"""The examples as the tests reach them: their files, and their command."""

import importlib
import subprocess
import sys
from types import ModuleType

import pytest

from tests.house.tree import ROOT

EXAMPLES = ROOT / "examples"


def run(name: str) -> str:
    """What `make example NAME=…` prints; it must end well."""
    command = [sys.executable, str(EXAMPLES / name / "run.py")]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=170, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


def module(name: str, file: str, patch: pytest.MonkeyPatch) -> ModuleType:
    """A file of an example, imported as its own programs import it."""
    patch.syspath_prepend(str(EXAMPLES / name))
    for known in [path.stem for path in (EXAMPLES / name).glob("*.py")]:
        patch.delitem(sys.modules, known, raising=False)
    return importlib.import_module(file)
