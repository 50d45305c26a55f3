"""Procrastinate: one asyncio worker a process. Usage: procrastinate_peer.py prepare|enqueue|work URL COUNT NAME."""

import asyncio
import sys

import procrastinate

verb, url, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))


@app.task(queue="bench", name="noop")
async def noop(number: int) -> dict[str, bool]:
    return {"ok": True}


async def main() -> None:
    async with app.open_async():
        if verb == "prepare":
            await app.schema_manager.apply_schema_async()
        elif verb == "enqueue":
            await noop.batch_defer_async(*[{"number": number} for number in range(count)])
        else:
            await app.run_worker_async(queues=["bench"], concurrency=10)


asyncio.run(main())
