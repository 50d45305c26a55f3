"""PgQueuer: one queue manager a process. Usage: pgqueuer_peer.py prepare|enqueue|work URL COUNT NAME."""

import asyncio
import json
import sys

import psycopg
from pgqueuer import PgQueuer, Queries
from pgqueuer.db import PsycopgDriver
from pgqueuer.models import Job

verb, url, count = sys.argv[1], sys.argv[2], int(sys.argv[3])


async def main() -> None:
    driver = PsycopgDriver(await psycopg.AsyncConnection.connect(url, autocommit=True))
    queries = Queries(driver)
    if verb == "prepare":
        await queries.install()
    elif verb == "enqueue":
        payloads = [json.dumps({"number": number}).encode() for number in range(count)]
        await queries.enqueue(["noop"] * count, payloads, [0] * count)
    else:
        worker = PgQueuer(driver)

        @worker.entrypoint("noop")
        async def noop(job: Job) -> None:
            json.loads(job.payload or b"")

        await worker.run()


asyncio.run(main())
