"""Deploys the process and starts one instance an order, over HTTP, as any program would.

A few orders are open at any time, and with each that ends the next is placed: so the trouble meets orders at every
step. A start whose answer was lost is made again under the same idempotency key.
"""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import httpx

from app.demo.saga.orders import MODEL, PROCESS, CustomerOrder

if TYPE_CHECKING:
    from sqlalchemy import Engine

MOST_OPEN = 40
LEAST_OPEN = 10
ANSWER_SECONDS = 10.0


class Shop:
    """Where orders come from."""

    def __init__(self, engine: "Engine", api_url: str, key: str, orders: Sequence[CustomerOrder]) -> None:
        self._engine = engine
        self._client = httpx.Client(
            base_url=api_url, headers={"X-API-Key": key}, timeout=ANSWER_SECONDS, trust_env=False
        )
        self._waiting = deque(orders)
        self._placed = 0
        self._open_at_once = min(max(len(orders) // 3, LEAST_OPEN), MOST_OPEN)

    def deploy(self) -> None:
        answer = self._client.post(
            "/v1/process-definitions",
            params={"name": MODEL.name},
            content=MODEL.read_bytes(),
            headers={"Content-Type": "application/xml"},
        )
        answer.raise_for_status()

    def place_next(self, ended: int) -> None:
        """Place as many orders as there is room for; stops at the first that cannot be placed now."""
        while self._waiting and self._placed - ended < self._open_at_once and self._place(self._waiting[0]):
            self._waiting.popleft()
            self._placed += 1

    def _place(self, order: CustomerOrder) -> bool:
        """Write the order down, then start its process; False when that has to be done again."""
        from sqlalchemy import text
        from sqlalchemy.exc import DBAPIError

        from db.errors import Unavailable

        insert = text("insert into demo.customer_order (id, refused_at) values (:id, :at) on conflict do nothing")
        start = {
            "process_key": PROCESS,
            "business_key": order.id,
            "idempotency_key": order.id,
            "variables": order.variables,
        }
        try:
            with self._engine.connect() as conn:
                conn.execute(insert, {"id": order.id, "at": order.refused_at})
            answer = self._client.post("/v1/process-instances", json=start)
        except (DBAPIError, Unavailable, httpx.TransportError):
            return False
        if answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
            return False
        answer.raise_for_status()
        return True

    def close(self) -> None:
        self._client.close()
