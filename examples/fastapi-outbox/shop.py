"""An order over HTTP. Its row and the task that packs it are committed together, or neither is."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from celeriac import Context, TaskEngine, task
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, sessionmaker

DATABASE_URL = os.environ["SHOP_DATABASE_URL"]  # postgresql+psycopg://…
sessions = sessionmaker(create_engine(DATABASE_URL), expire_on_commit=False)


class Model(DeclarativeBase):
    """The shop's tables."""


class Item(Model):
    """What lies on the shelf."""

    __tablename__ = "item"

    name: Mapped[str] = mapped_column(primary_key=True)
    stock: Mapped[int]


class Order(Model):
    """What a customer ordered; `label` is the parcel's, once it is printed."""

    __tablename__ = "customer_order"

    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str]
    label: Mapped[str | None] = mapped_column(default=None)


class NewOrder(BaseModel):
    item: str


class Placed(BaseModel):
    id: int
    item: str
    label: str | None


class Parcel(BaseModel):
    """The task's input: checked when it is enqueued, and again when it is run."""

    order: int


def print_label(order: int) -> str:
    return f"label {order}"


@task("shop.pack", lease=5)
def pack(ctx: Context, parcel: Parcel) -> None:
    label = ctx.step("label", print_label, parcel.order)
    with ctx.transaction(sessions) as session:
        session.get_one(Order, parcel.order).label = label


@asynccontextmanager
async def worker(app: FastAPI) -> AsyncIterator[None]:
    """Threads of this process run the tasks and do the chores: with a Celery fleet, leave this out."""
    engine = TaskEngine(DATABASE_URL, tasks=[pack])
    engine.start(roles=["worker", "chores"], concurrency=2)
    yield
    engine.stop()


app = FastAPI(lifespan=worker)


@app.post("/orders", status_code=201)
def place(new: NewOrder) -> Placed:
    # Not in a dependency: what is said to the customer should be said after the commit.
    with sessions.begin() as session:
        order = Order(item=new.item)
        session.add(order)
        session.flush()
        pack.enqueue(session, Parcel(order=order.id), idempotency_key=f"order-{order.id}")
        item = session.get(Item, new.item, with_for_update=True)
        if item is None or item.stock == 0:
            raise HTTPException(409, f"no {new.item} left")  # the order is rolled back, and the task with it
        item.stock -= 1
    return Placed(id=order.id, item=order.item, label=None)


@app.get("/orders/{order_id}")
def look(order_id: int) -> Placed:
    with sessions() as session:
        order = session.get(Order, order_id)
        if order is None:
            raise HTTPException(404, "no such order")
        return Placed(id=order.id, item=order.item, label=order.label)
