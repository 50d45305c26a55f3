"""An expense waits for its approval, up to thirty days.

Nothing waits with it: no worker, no timer in memory, no message in a broker. It is a row, and so are its reminders.
"""

from dataclasses import dataclass
from datetime import timedelta

from celeriac import Context, task
from letters import send_letter

DECIDED = "expense.decided"
"""The topic of the signal that tells what was decided; its key is the number of the expense."""

TABLE = "create table expense (number text primary key, amount integer not null, state text not null)"


@dataclass(frozen=True)
class Expense:
    """What somebody wants back, and who has to agree."""

    number: str
    amount: int
    approver: str


@dataclass(frozen=True)
class Verdict:
    """What became of it."""

    approved: bool
    by: str


@task("expenses.approve")
def approve(ctx: Context, expense: Expense) -> Verdict:
    ctx.step("ask", send_letter, expense.approver, f"please decide about expense {expense.number}")
    answer = ctx.wait_for(DECIDED, expense.number, timeout=timedelta(days=23))
    if answer is None:
        ctx.step("remind", send_letter, expense.approver, f"a week is left for expense {expense.number}")
        answer = ctx.wait_for(DECIDED, expense.number, timeout=timedelta(days=7))
    verdict = Verdict(**answer.payload) if answer else Verdict(approved=False, by="nobody in 30 days")
    # The row, the proof that this task is still ours to decide, and the record that it has been done: one commit.
    with ctx.transaction() as connection:
        state = "approved" if verdict.approved else "refused"
        connection.execute("update expense set state = %s where number = %s", [state, expense.number])
    return verdict
