"""A Celery worker with one late acknowledged task that takes long: `late_ack_worker.py BROKER_URL patched|plain`."""

import logging
import sys
import time

from celery import Celery

from workers import kombu_patch

broker_url, kind = sys.argv[1:]
if kind == "patched":
    kombu_patch.apply()

app = Celery("late_ack", broker=broker_url)
app.conf.update(task_ignore_result=True, task_acks_late=True, broker_connection_max_retries=None)


@app.task(name="hold")
def hold(seconds: float) -> None:
    logging.warning("holding")
    time.sleep(seconds)


@app.task(name="say")
def say(word: str) -> None:
    logging.warning("said %s", word)


# Two slots and one message: the crash needs a message in flight and credit for another one.
worker = app.Worker(concurrency=2, without_gossip=True, without_mingle=True, loglevel="WARNING", quiet=True)
worker.start()
sys.exit(worker.exitcode)
