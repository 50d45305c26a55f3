"""The warehouse, the credit agency and the carrier: what the HTTP workers act upon, and what Celeriac knows nothing of.

    POST /reserve {"order": "order-00007", "key": "…", "fencing_token": 17}  ->  200 {"reference": "reserve-41", …}

It does what systems outside can do about calls that come twice, and no more: it knows a call by its key, which is the
task's id. The first call of a key is the effect; a later one gets the same answer and has no effect. Two keys are
two effects, also for one order and step: it would reserve twice if somebody made two tasks of one. Every call is a line
of the ledger, so that doubles can be seen.
"""

import argparse
import json
import time
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any


@dataclass(frozen=True)
class Entry:
    """One call: which step of which order, in the name of which task and lease, when (Unix time), and whether again."""

    order: str
    step: str
    key: str
    fencing_token: int
    at: float
    again: bool


class Ledger:
    """The append-only file, and the keys in it."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("ab", buffering=0)
        self._references: dict[tuple[str, str], str] = {}
        self._turn = Lock()

    def take(self, step: str, call: dict[str, Any]) -> dict[str, Any]:
        """Note a call; returns what is answered."""
        known = step, call["key"]
        with self._turn:
            again = known in self._references
            reference = self._references.setdefault(known, f"{step}-{len(self._references) + 1}")
            entry = Entry(call["order"], step, call["key"], call["fencing_token"], time.time(), again)
            self._file.write(json.dumps(asdict(entry)).encode() + b"\n")
        return {"reference": reference, "again": again}


def read_ledger(file: Path) -> list[Entry]:
    """Every call, in the order in which they came."""
    return [Entry(**json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []


class Counter(BaseHTTPRequestHandler):
    """Where calls come in."""

    ledger: Ledger

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        answer = json.dumps(self.ledger.take(self.path.strip("/"), json.loads(body))).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        """The ledger has it."""


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m app.demo.saga.outside")
    options.add_argument("--port", required=True, type=int)
    options.add_argument("--ledger", required=True, type=Path)
    told = options.parse_args()
    Counter.ledger = Ledger(told.ledger)
    server = ThreadingHTTPServer(("127.0.0.1", told.port), Counter)
    print("open", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
