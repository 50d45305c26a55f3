"""The part of README.md between the two marks is written by every full run, from the JSON of all benchmarks."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.catalogue import BENCHMARKS
from benchmarks.show import goal_text, measured_text

BEGIN, END = "<!-- figures: written by python -m benchmarks -->", "<!-- end of figures -->"


def write_figures(readme: Path, results: Path) -> None:
    before, _, rest = readme.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    documents = [json.loads(path.read_text()) for name in BENCHMARKS if (path := results / f"{name}.json").exists()]
    figures = "\n".join(line for document in documents for line in _section(document))
    readme.write_text(f"{before}{BEGIN}\n\n{figures}\n{END}{after}")


def _section(document: dict[str, Any]) -> Iterator[str]:
    machine, versions = document["machine"], document["versions"]
    yield f"### {document['name']}"
    yield ""
    yield f"{document['question']} {document['date'][:10]}, {machine['processor']}, {machine['cores']} cores,"
    yield f"flush {machine['flush_ms']} ms, load before the run {machine['load_average'][0]},"
    yield f"Postgres {versions['postgres']}, Python {versions['python']}."
    yield ""
    yield "| figure | goal | measured | |"
    yield "|---|--:|--:|---|"
    for figure in document["figures"]:
        verdict = "" if figure["verdict"] == "no goal" else figure["verdict"]
        yield f"| {figure['name']} | {goal_text(figure)} | {measured_text(figure)} | {verdict} |"
    yield ""
