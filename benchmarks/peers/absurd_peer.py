"""Absurd: a worker with ten threads a process. Usage: absurd_peer.py prepare|enqueue|work URL COUNT NAME noop|steps."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from absurd_sdk import Absurd

verb, url, count, name, kind = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5]
if verb == "prepare":
    command = [str(Path(sys.executable).with_name("absurdctl")), "init"]
    subprocess.run(command, env=os.environ | {"ABSURD_DATABASE_URL": url}, check=True)
app = Absurd(url, queue_name="bench")


@app.register_task(name="noop")
def noop(params: Any, ctx: Any) -> dict[str, bool]:
    return {"ok": True}


@app.register_task(name="steps")
def steps(params: Any, ctx: Any) -> int:
    number: int = params["number"]
    for step in ("a", "b", "c"):
        number = ctx.step(step, lambda: number + 1)  # noqa: B023 - called at once
    return number


if verb == "prepare":
    app.create_queue("bench")
elif verb == "enqueue":
    for number in range(count):
        app.spawn(kind, {"number": number})
else:
    app.start_worker(worker_id=name, concurrency=10)
