"""A shop. Whoever orders gets a row at once; a Celery worker prints the label for the parcel."""

import os
import time

from celery import Celery
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

engine = create_engine(os.environ["SHOP_DATABASE_URL"])
app = Celery("shop", broker=os.environ["SHOP_BROKER_URL"])


class Model(DeclarativeBase):
    """The shop's tables."""


class Order(Model):
    """What a customer ordered; `label` is the parcel's, once it is printed."""

    __tablename__ = "shop_order"

    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str]
    label: Mapped[str | None] = mapped_column(default=None)


def place(order_id: int, item: str) -> None:
    """Take an order."""
    with Session(engine) as session, session.begin():
        session.add(Order(id=order_id, item=item))
    pack.delay({"order": order_id})


@app.task(acks_late=True)
def pack(parcel):
    """Print the label of an order."""
    time.sleep(0.2)  # printers are slow
    with Session(engine) as session, session.begin():
        session.get_one(Order, parcel["order"]).label = f"label {parcel['order']}"


@app.task
def greet(customer):
    """What may be lost stays as it is."""
    print(f"welcome, {customer}")


app.conf.update(worker_prefetch_multiplier=1, task_ignore_result=True)
