"""What it costs to tell one instance that its payment has come, when very many wait for the same message, over HTTP.

The crowd is made of copies of an instance that the engine has begun and that waits, row by row. Each message is for
another instance, and is worked in before it is answered.
"""

import random
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from typing import Any, Final

from app.dev.valkey import EmbeddedValkey
from benchmarks.callers import encoded
from benchmarks.camunda_queries import made_copies
from benchmarks.figures import Figure, Measured
from benchmarks.http_connection import HttpConnection
from benchmarks.instances import flow, open_office
from benchmarks.samples import median, spread
from benchmarks.servers import durable_postgres, new_database, running_api, server_version
from benchmarks.stopwatch import milliseconds

WAITS: Final = (
    '<startEvent id="s"/><receiveTask id="paid" messageRef="M"/><endEvent id="e"/>'
    + flow("s", "paid")
    + flow("paid", "e")
)
_NUMBERED: Final = """
insert into celeriac.variable (instance_id, scope, name, value)
select m.instance_id, s.id, 'number', to_jsonb(m.n) from made m
  join celeriac.scope s on s.instance_id = m.instance_id"""


@dataclass(frozen=True)
class Numbers:
    """Instances that wait, and how many messages of each kind are sent."""

    waiting: int
    messages: int


FULL = Numbers(waiting=50_000, messages=100)
QUICK = Numbers(waiting=200, messages=3)


def run(quick: bool) -> Measured:
    numbers = QUICK if quick else FULL
    with durable_postgres() as server, EmbeddedValkey() as valkey:
        database = new_database(server, "bench")
        with ExitStack() as opened:
            owner, office = opened.enter_context(open_office(database))
            office.deploy("waits", WAITS, '<message id="M" name="paid"/>')
            with made_copies(owner, office.start("waits"), numbers.waiting, age="1 day"):
                owner.execute(_NUMBERED)
                ids: dict[int, str] = {
                    n: str(instance) for n, instance in owner.execute("select n, instance_id from made").fetchall()
                }
            owner.execute("vacuum (analyze)")
            owner.execute("checkpoint")
            api = opened.enter_context(running_api(database, valkey.url()))
            connection = opened.enter_context(closing(HttpConnection(api.port, api.key)))
            figures = tuple(measured(connection, ids, numbers.messages))
        version = server_version(server)
    return Measured(asdict(numbers), figures, version)


def measured(connection: HttpConnection, ids: Mapping[int, str], messages: int) -> list[Figure]:
    """One kind after the other, in turns: what each message names its receiver by."""
    picked = random.Random(1).sample(sorted(ids), messages * 5)
    taken: dict[str, list[float]] = {}
    for n in picked:
        kinds: dict[str, tuple[str, dict[str, Any]]] = {
            "by instance": ("/v1/messages", {"name": "paid", "instance_id": ids[n]}),
            "by business key": ("/v1/messages", {"name": "paid", "business_key": f"order-{n}"}),
            "by variable": ("/v1/messages", {"name": "paid", "correlation": {"number": n}}),
            "/engine-rest, by business key": (
                "/engine-rest/message", {"messageName": "paid", "businessKey": f"order-{n}"},
            ),
            "/engine-rest, by variable": (
                "/engine-rest/message",
                {"messageName": "paid", "correlationKeys": {"number": {"value": n, "type": "Integer"}}},
            ),
        }  # fmt: skip
        kind = min(kinds, key=lambda name: len(taken.get(name, ())))
        path, body = kinds[kind]
        with milliseconds() as took:
            connection.post(path, encoded(body))
        taken.setdefault(kind, []).append(took.ms)
    return [
        Figure(f"message {kind}: median", median(times), "ms", None, spread(times)) for kind, times in taken.items()
    ]
