"""Every transition, in any order, by several workers and their zombies: the real functions against a model of them.

PROOF_EXAMPLES (default 120) and PROOF_STEPS (default 50) say how long it looks; PROOF_SHRINK=1 makes the steps of a
failure few, which may take minutes. A failure prints its steps and the blob that repeats it.
"""

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from sqlalchemy import Connection

from db.call import one
from tests.proof.database import ProofDatabase
from tests.proof.machine import KINDS, TransitionMachine

EXAMPLES = int(os.environ.get("PROOF_EXAMPLES", "120"))
STEPS = int(os.environ.get("PROOF_STEPS", "50"))
SHRINK = [Phase.shrink] if os.environ.get("PROOF_SHRINK") else []
# Slow for Hypothesis means slow to draw; here it is the database that takes its time.
PROFILE = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, *SHRINK],
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


@pytest.fixture(scope="module")
def database(proof_connection: Connection) -> ProofDatabase:
    for name, kind in KINDS.items():
        one(
            proof_connection,
            "register_task_type",
            name=name,
            lease_ms=kind.lease_ms,
            retries=kind.retries,
            backoff_first_ms=kind.first_ms,
            backoff_factor=kind.factor,
            backoff_cap_ms=kind.cap_ms,
            backoff_jitter=kind.jitter,
            expirations=kind.expirations,
            delivery="celery" if kind.rings else "pull",
            concurrency=kind.concurrency,
        )
    return ProofDatabase(proof_connection)


@pytest.mark.timeout(EXAMPLES * STEPS)
def test_every_sequence_of_calls_does_what_the_model_says_and_breaks_no_invariant(database: ProofDatabase) -> None:
    run_state_machine_as_test(lambda: TransitionMachine(database), settings=PROFILE)
