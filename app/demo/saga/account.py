"""The end: what became of every order, by what was done outside and in the till, and nothing else.

An order is *shipped* when its four steps were done once each, and *undone* when everything before the step that was
refused was done once and undone once, the newest first. Any other is *half*, *twice* or *out of order*, and says why.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

from app.demo.evidence import REFUSED, read_diaries
from app.demo.saga.evidence import Effect, Evidence, gather
from app.demo.saga.orders import CHARGE, COOLING_OFF_SECONDS, STEPS, UNDO_OF, CustomerOrder, read_orders
from app.demo.saga.stage import Places

if TYPE_CHECKING:
    from sqlalchemy import Connection

UNDOES: Mapping[str, str] = {undo: step for step, undo in UNDO_OF.items()}


class Fate(StrEnum):
    """What became of an order."""

    SHIPPED = "shipped"
    UNDONE = "undone"
    HALF = "half"
    TWICE = "twice"
    OUT_OF_ORDER = "out of order"


@dataclass(frozen=True)
class Verdict:
    """The fate of one order, and what is wrong with it, if anything is."""

    order: str
    fate: Fate
    wrong: str = ""


@dataclass(frozen=True)
class Account:
    """What `--json` prints."""

    orders: int
    shipped: int
    undone: int
    half: int
    twice: int
    out_of_order: int
    calls_repeated: int
    leases_lost: int
    stale_writes_refused: int
    seconds: float

    @property
    def holds(self) -> bool:
        """What the demo promises: every order shipped once, or undone once and in order."""
        return self.shipped + self.undone == self.orders

    def as_json(self) -> str:
        return json.dumps(asdict(self))


def compare(conn: "Connection", orders: Sequence[CustomerOrder], places: Places) -> tuple[Evidence, list[Verdict]]:
    """Judge every order that was to be placed."""
    evidence = gather(conn, places.ledger)
    told = statuses(conn)
    placed = set(read_orders(conn))
    verdicts = [
        judge(order, evidence.effects.get(order.id, ()), evidence, told.get(order.id, ()))
        if order in placed
        else Verdict(order.id, Fate.HALF, "was never placed")
        for order in orders
    ]
    known = {order.id for order in orders}
    strangers = [Verdict(order, Fate.TWICE, "nobody ordered it") for order in evidence.effects if order not in known]
    return evidence, verdicts + strangers


def judge(order: CustomerOrder, effects: Sequence[Effect], evidence: Evidence, told: Sequence[str]) -> Verdict:
    """What became of one order. `effects` in the order of their times, `told`: the statuses of its instances."""
    for fate, wrong in (
        *((Fate.TWICE, wrong) for wrong in twice(effects, evidence)),
        *((Fate.HALF, wrong) for wrong in half(order, effects, evidence)),
    ):
        return Verdict(order.id, fate, wrong)
    for wrong in out_of_order(effects, evidence):
        return Verdict(order.id, Fate.OUT_OF_ORDER, wrong)
    fate, status = (Fate.SHIPPED, "COMPLETED") if order.refused_at is None else (Fate.UNDONE, "FAILED_COMPENSATED")
    if list(told) != [status]:
        return Verdict(order.id, Fate.HALF, f"was {fate}, but Celeriac says {', '.join(told) or 'nothing'}")
    return Verdict(order.id, fate)


def twice(effects: Sequence[Effect], evidence: Evidence) -> Iterator[str]:
    for step, times in Counter(effect.step for effect in effects).items():
        if times > 1:
            yield f"{step} was done {times} times"
    for effect in effects:
        if len(evidence.completions.get(effect.task_id, ())) > 1:
            yield f"{effect.step} was completed more than once"


def half(order: CustomerOrder, effects: Sequence[Effect], evidence: Evidence) -> Iterator[str]:
    done, due = {effect.step for effect in effects}, {*order.steps, *order.undos}
    for step in (*order.steps, *order.undos):
        if step not in done:
            yield f"{step} was not done"
    for step in done - due:
        yield f"{step} was done, and should not have been"
    for effect in effects:
        if effect.task_id not in evidence.completions:
            yield f"{effect.step} was done, and its task was never completed"


def out_of_order(effects: Sequence[Effect], evidence: Evidence) -> Iterator[str]:
    """Whether each step was before those that follow from it. Of a whole order, in which nothing is there twice."""
    completed = {effect.step: evidence.completions[effect.task_id][0] for effect in effects}
    times = {effect.step: effect.at for effect in effects}
    steps = [step for step in STEPS if step in completed]
    undos = [effect.step for effect in effects if effect.step in UNDOES]
    together = set(STEPS[:2])
    for before, after in combinations((*steps, *undos), 2):
        if {before, after} == together:
            continue
        if not completed[before].came_before(completed[after]):
            yield f"{after} was completed before {before} had been"
        if times[after] < completed[before].at:
            yield f"{after} was done before {before} was completed"
    for newer, older in pairwise(undos):
        if completed[UNDOES[newer]].came_before(completed[UNDOES[older]]):
            yield f"{newer} came before {older}, though what it undoes was done first"
    begun = max(times[step] for step in together)
    if CHARGE in times and times[CHARGE] < begun + COOLING_OFF_SECONDS:
        yield f"{CHARGE} came {times[CHARGE] - begun:.2f} s after the first steps: too early"


def statuses(conn: "Connection") -> dict[str, list[str]]:
    """What Celeriac says about each order's instances: compared at the end, never taken for evidence."""
    rows = conn.exec_driver_sql("select business_key, array_agg(status) from celeriac.instances group by 1")
    return {order: list(told) for order, told in rows}


def draw_up(
    conn: "Connection", verdicts: Sequence[Verdict], evidence: Evidence, places: Places, seconds: float
) -> Account:
    """The figures. Refusals are counted by the workers that were refused: no crash of Postgres loses or adds one."""
    fates = Counter(verdict.fate for verdict in verdicts)
    leases_lost = conn.exec_driver_sql("select count(*) from celeriac.task_timeline where kind = 'lease_lost'")
    return Account(
        orders=len(verdicts),
        shipped=fates[Fate.SHIPPED],
        undone=fates[Fate.UNDONE],
        half=fates[Fate.HALF],
        twice=fates[Fate.TWICE],
        out_of_order=fates[Fate.OUT_OF_ORDER],
        calls_repeated=evidence.calls_repeated,
        leases_lost=leases_lost.scalar_one(),
        stale_writes_refused=sum(line.what == REFUSED for line in read_diaries(places.diaries)),
        seconds=round(seconds, 1),
    )
