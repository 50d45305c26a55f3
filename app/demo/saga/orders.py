"""The business side: orders that somebody placed, what must be done for each, and a trigger that sees it done.

Every tenth order cannot be carried out: in turns the carrier refuses the address and the bank refuses the card. Then
what was done before must be undone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

MODEL: Final = Path(__file__).with_name("order.bpmn")
PROCESS: Final = "order"
TOPICS: Final = "order.*"
TILL_QUEUE: Final = "till"

RESERVE, CHECK_CREDIT, CHARGE, SHIP = "reserve", "check_credit", "charge", "ship"
STEPS: Final = (RESERVE, CHECK_CREDIT, CHARGE, SHIP)
"""In an order of the model: the first two go on at the same time."""
UNDO_OF: Final[Mapping[str, str]] = MappingProxyType({
    RESERVE: "release",
    CHECK_CREDIT: "void_credit",
    CHARGE: "refund",
})  # fmt: skip
"""What undoes a step; nothing undoes ship."""

REFUSED_EVERY: Final = 10
COOLING_OFF_SECONDS: Final = 1
GOOD_CARD, BAD_CARD = "4000-1", "4000-2"
GOOD_ADDRESS, BAD_ADDRESS = "12 Harbour Road", "nowhere"

SCHEMA = """
create schema demo;

create table demo.customer_order (
    id         text        primary key,
    refused_at text        check (refused_at in ('charge', 'ship')),
    placed_at  timestamptz not null default clock_timestamp()
);

-- What the fleet's tasks write in their own transactions. No unique key: a second row must be seen, not prevented.
create table demo.effect (
    order_id      text        not null,
    step          text        not null,
    task_id       uuid        not null,
    fencing_token bigint      not null,
    at            timestamptz not null default clock_timestamp()
);
grant usage on schema demo to celeriac_fleet;
grant insert on demo.effect to celeriac_fleet;

-- Every completion, with its transaction and what that saw: of two completions, the one that the other saw was first.
create table demo.completion (
    task_id       uuid        not null,
    fencing_token bigint,
    xid           xid8        not null default pg_current_xact_id(),
    saw           pg_snapshot not null,
    at            timestamptz not null default clock_timestamp()
);

create function demo.see_completion() returns trigger language plpgsql as $$
begin
    insert into demo.completion (task_id, fencing_token, saw) values (new.id, new.fencing_token, pg_current_snapshot());
    return null;
end $$;

-- Sees every write that leaves a task COMPLETED, also one over an earlier result.
create trigger see_completion after update on celeriac.task
   for each row when (new.state = 'COMPLETED') execute function demo.see_completion();
"""


@dataclass(frozen=True)
class CustomerOrder:
    """One order. `refused_at` is the step that somebody will refuse for good, None when all goes well."""

    id: str
    refused_at: str | None = None

    @property
    def variables(self) -> dict[str, Any]:
        """What its process begins with."""
        return {
            "card": BAD_CARD if self.refused_at == CHARGE else GOOD_CARD,
            "address": BAD_ADDRESS if self.refused_at == SHIP else GOOD_ADDRESS,
            "cooling_off": f"PT{COOLING_OFF_SECONDS}S",
        }

    @property
    def steps(self) -> Sequence[str]:
        """What must be done for it, once each, in an order of the model."""
        return STEPS if self.refused_at is None else STEPS[: STEPS.index(self.refused_at)]

    @property
    def undos(self) -> Sequence[str]:
        """What must be undone, once each."""
        return () if self.refused_at is None else tuple(UNDO_OF[step] for step in self.steps)


def made_up(number: int) -> list[CustomerOrder]:
    """So many orders; every tenth will be refused, at ship and at charge in turns."""
    return [CustomerOrder(f"order-{place:05}", _refused_at(place)) for place in range(1, number + 1)]


def _refused_at(place: int) -> str | None:
    if place % REFUSED_EVERY:
        return None
    return CHARGE if place // REFUSED_EVERY % 2 == 0 else SHIP


def make_schema(engine: "Engine") -> None:
    with engine.connect() as conn:
        conn.exec_driver_sql(SCHEMA)


def read_orders(conn: "Connection") -> list[CustomerOrder]:
    rows = conn.exec_driver_sql("select id, refused_at from demo.customer_order order by id")
    return [CustomerOrder(*row) for row in rows]


def count_statuses(engine: "Engine") -> dict[str, int] | None:
    """How many orders' instances are in which status; None while the database is away."""
    from sqlalchemy.exc import DBAPIError

    from db.errors import Unavailable

    try:
        with engine.connect() as conn:
            rows = conn.exec_driver_sql("select status, count(*) from celeriac.instances group by 1")
            return {status: int(number) for status, number in rows}
    except (DBAPIError, Unavailable):
        return None
