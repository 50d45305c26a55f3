"""Logging of our long-running processes: one line an entry, to standard error, set up before Celery does it its way."""

from __future__ import annotations

import logging
import warnings
from typing import Any

from celery.platforms import SecurityWarning
from celery.signals import setup_logging

from app.settings import Settings


def set_up_logging(settings: Settings) -> None:
    """Log at `settings.log_level`; Celery, which would add handlers of its own, leaves logging alone afterwards."""
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)-7s %(name)s %(threadName)s: %(message)s"
    )
    # Others say at INFO what they do for each message; four ticks a second make that noise.
    for talkative in ("celery.worker.strategy", "celery.app.trace", "celery.beat", "kombu"):
        logging.getLogger(talkative).setLevel(max(logging.WARNING, logging.getLogger().level))
    # Celery warns root of pickle, which our apps do not accept.
    warnings.simplefilter("ignore", SecurityWarning)
    setup_logging.connect(_leave_it, weak=False, dispatch_uid="celeriac.logs")


def _leave_it(**_: Any) -> None:
    """A receiver of this signal is what tells Celery that logging is somebody else's business."""
