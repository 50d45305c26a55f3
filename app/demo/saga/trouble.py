"""The trouble of the saga: what the demo does to its workers, and the API is killed as well."""

import time
from dataclasses import dataclass
from typing import ClassVar

from app.demo.saga.stage import OFFICE_NAMES, STOCK_NAMES, TILL_NAMES, SagaStage
from app.demo.trouble import Troublemaker


@dataclass(frozen=True)
class SagaTroublemaker(Troublemaker):
    """Makes the trouble, at shares of the orders that have ended."""

    IN_THE_MIDDLE: ClassVar[str] = "tasks between their effect and their report"

    stage: SagaStage

    def act(self) -> None:
        self.wait_for_share(0.05)
        held = self.freeze_before_its_report(STOCK_NAMES[0])
        held_by_till = self.freeze_before_its_report(TILL_NAMES[0])
        self.wait_for_share(0.20)
        self.kill_before_its_report(OFFICE_NAMES[1])
        self.kill_a_child(TILL_NAMES[1])
        self.wait_for_share(0.30)
        self.flush_redis()
        self.thaw_and_see_it_refused(STOCK_NAMES[0], held)
        self.thaw_and_see_it_refused(TILL_NAMES[0], held_by_till)
        self.kill_before_its_report(STOCK_NAMES[1])
        self.wait_for_share(0.45)
        self.kill_the_api()
        self.wait_for_share(0.60)
        self.restart_postgres()

    def kill_before_its_report(self, name: str) -> None:
        """So that whoever takes over makes a call again that has had its effect."""
        self.freeze_before_its_report(name)
        self.kill_and_restart(name)

    def kill_the_api(self) -> None:
        began = time.monotonic()
        self.stage.restart_api()
        self.say(f"the API was killed (SIGKILL), and another one was ready after {time.monotonic() - began:.1f} s")
