"""The worker of the topic `stock.check`, as it was written for Camunda 7. Only its address is ours."""

import os

from camunda.external_task.external_task import ExternalTask, TaskResult
from camunda.external_task.external_task_worker import ExternalTaskWorker

IN_STOCK = {"book": 3, "lamp": 1, "yacht": 1}


def check(task: ExternalTask) -> TaskResult:
    item = task.get_variable("item")
    if item not in IN_STOCK:
        return task.bpmn_error("OUT_OF_STOCK", f"there is no {item}", {"reason": f"no {item} in stock"})
    return task.complete({"shelf": {"row": 7, "left": IN_STOCK[item]}})


if __name__ == "__main__":
    config = {"auth_basic": {"username": "stock", "password": os.environ["KEY"]}} if os.environ.get("KEY") else {}
    worker = ExternalTaskWorker("stock", os.environ["ENGINE_REST"], {"sleepSeconds": 1, **config})
    worker.subscribe("stock.check", check)
