"""All chores there are."""

from __future__ import annotations

from typing import Final

from workers.advance import advance
from workers.chore import Chore
from workers.dispatch_outbox import dispatch_outbox
from workers.expire_leases import expire_leases
from workers.fire_timers import fire_timers
from workers.maintain_history import maintain_history
from workers.promote_due import promote_due
from workers.purge_ended import purge_ended
from workers.ring_stale import ring_stale
from workers.run_schedules import run_schedules

DISPATCH_OUTBOX: Final = Chore("dispatch_outbox", period_seconds=1, run=dispatch_outbox)

CHORES: Final = (
    DISPATCH_OUTBOX,
    Chore("expire_leases", period_seconds=1, run=expire_leases),
    Chore("promote_due", period_seconds=1, run=promote_due),
    Chore("fire_timers", period_seconds=1, run=fire_timers),
    Chore("run_schedules", period_seconds=1, run=run_schedules),
    Chore("advance", period_seconds=1, run=advance),
    Chore("ring_stale", period_seconds=10, run=ring_stale),
    Chore("purge_ended", period_seconds=3600, run=purge_ended),
    Chore("maintain_history", period_seconds=3600, run=maintain_history),
)
