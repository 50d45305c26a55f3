// The worker of the topic `card.charge`, as it was written for Camunda 7. Only its address is ours.

import { BasicAuthInterceptor, Client, File, Variables, logger } from "camunda-external-task-client-js";

const { ENGINE_REST, KEY } = process.env;
const client = new Client({
  baseUrl: ENGINE_REST,
  workerId: "card",
  maxParallelExecutions: 5,
  asyncResponseTimeout: 20000,
  interceptors: KEY ? new BasicAuthInterceptor({ username: "card", password: KEY }) : undefined,
  use: logger.level("warn"),
});

client.subscribe("card.charge", { lockDuration: 10000 }, async ({ task, taskService }) => {
  const item = task.variables.get("item");
  const price = task.variables.get("price");
  if (price > 10000) {
    const reason = new Variables().set("reason", `the bank refuses ${price}`);
    return taskService.handleBpmnError(task, "CARD_REFUSED", "too much for this card", reason);
  }
  if (item === "lamp" && task.retries === null) {
    return taskService.handleFailure(task, { errorMessage: "the bank does not answer", retries: 2, retryTimeout: 100 });
  }
  await taskService.extendLock(task, 20000); // the bank may take its time
  const receipt = new File({ localPath: "receipt.txt", mimetype: "text/plain" });
  receipt.content = Buffer.from(`${item}: ${price} paid on ${task.businessKey}\n`);
  await taskService.complete(task, new Variables().set("paid", true).set("receipt", receipt));
});
