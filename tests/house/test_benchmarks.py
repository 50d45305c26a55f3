"""The benchmarks run and leave what others can read; what they measure is nobody's verdict here."""

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.catalogue import BENCHMARKS
from tests.house.tree import ROOT


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_run_writes_its_figures_and_all_that_they_depend_on(tmp_path: Path) -> None:
    answer = run("--quick", "--results", str(tmp_path), "wal")
    assert answer.returncode == 0, answer.stderr
    written = json.loads((tmp_path / "wal.json").read_text())
    assert (written["name"], written["quick"]) == ("wal", True)
    assert written.keys() >= {"question", "date", "seconds", "machine", "versions", "settings"}
    assert written["settings"]["postgres"]["synchronous_commit"] == "on"
    judged = [figure for figure in written["figures"] if figure["goal"]]
    assert [figure["unit"] for figure in judged] == ["kB", "kB", "kB"]
    assert all(figure["value"] > 0 and figure["verdict"] in ("met", "missed") for figure in judged)
    assert judged[0]["name"] in answer.stdout


def test_an_unknown_benchmark_is_refused_and_the_known_ones_are_named() -> None:
    answer = run("nonsense")
    assert answer.returncode == 2
    assert all(name in answer.stderr for name in BENCHMARKS)


def test_the_readme_of_the_benchmarks_speaks_of_each() -> None:
    readme = (ROOT / "benchmarks/README.md").read_text()
    assert [name for name in BENCHMARKS if f"`{name}`" not in readme] == []
