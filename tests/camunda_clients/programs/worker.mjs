// A worker on the client for JavaScript: it does what the topic's name says, and tells it in lines of JSON.
//
// ENGINE_REST: where the engine is. WORKER: who we are. TOPICS: separated by commas. OPTIONS: of the client, JSON.
// GATE: a file; what waits goes on when it is there. KEY: shown as the password, when there is one.

import { existsSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { BasicAuthInterceptor, Client, File, Variables } from "camunda-external-task-client-js";

const { ENGINE_REST, WORKER, TOPICS, OPTIONS = "{}", GATE = "", KEY } = process.env;
const tell = (what, more = {}) => console.log(JSON.stringify({ what, worker: WORKER, ...more }));
const told = ({ httpStatusCode, engineMsg, type, code, message }) => ({ status: httpStatusCode, engineMsg, type, code, message });

const gate = async () => {
  while (!existsSync(GATE)) await pause(25);
};

const deeds = {
  async complete(task, taskService) {
    const variables = new Variables().set("sum", task.variables.get("a") + task.variables.get("b"));
    variables.set("done_by", WORKER).setTransient("gone", "at once");
    await taskService.complete(task, variables, new Variables().set("inner", 1));
  },

  async echo(task, taskService) {
    const variables = new Variables();
    const seen = {};
    for (const [name, typed] of Object.entries(task.variables.getAllTyped())) {
      seen[name] = { ...typed, is: typed.value === null ? "null" : typed.value.constructor.name };
      variables.setTyped(`${name}_back`, typed);
    }
    tell("saw", { seen });
    await taskService.complete(task, variables);
  },

  async make(task, taskService) {
    const made = {
      text: "größer ✓ \u{1F980}", integer: 7, long: 5000000000, double: 1.5, yes: true, nothing: null,
      when: new Date("2024-01-02T03:04:05.678Z"), json: { list: [1, "two", null], nested: { a: 1.25 } },
    };
    const variables = new Variables().setAll(made);
    variables.setTyped("short", { value: 3, type: "short", valueInfo: {} });
    variables.setTyped("bytes", { value: Buffer.from([0, 255, 10]).toString("base64"), type: "Bytes", valueInfo: {} });
    variables.setTyped("xml", { value: "<a b='1'/>", type: "Xml", valueInfo: {} });
    await taskService.complete(task, variables);
  },

  async file(task, taskService) {
    const file = task.variables.get("document");
    const { filename, mimetype, encoding } = file;
    await file.load();
    tell("read", { filename, mimetype, encoding, content: file.content.toString("base64") });
    const answer = new File({ localPath: "answer.bin", mimetype: "application/octet-stream" });
    answer.content = Buffer.concat([file.content, Buffer.from([0, 1, 2, 255])]);
    await taskService.complete(task, new Variables().set("answer", answer));
  },

  async fail(task, taskService) {
    if (task.variables.get("mended")) return taskService.complete(task, new Variables().set("done_by", WORKER));
    const retries = task.retries === null ? 2 : task.retries - 1;
    const { errorMessage, errorDetails } = task;
    tell("failing", { retries: task.retries, errorMessage, errorDetails });
    const options = { errorMessage: "no paper", errorDetails: "line 1\nline 2", retries, retryTimeout: 0 };
    return taskService.handleFailure(task, options);
  },

  async refuse(task, taskService) {
    await taskService.handleBpmnError(task, "REFUSED", "too dear", new Variables().set("reason", "price"));
  },

  async extend(task, taskService) {
    tell("holding", { task: task.id });
    for (let i = 0; i < 18; i++) {
      await taskService.extendLock(task, 4000);
      await pause(250);
    }
    await taskService.complete(task, new Variables().set("done_by", WORKER));
  },

  async unlock(task, taskService) {
    if (task.variables.get("given_back")) return taskService.complete(task, new Variables().set("done_by", WORKER));
    await taskService.unlock(task);
    await taskService.lock(task, 60000);
    return taskService.complete(task, new Variables().set("done_by", WORKER));
  },

  async hold(task, taskService) {
    tell("holding", { task: task.id, instance: task.processInstanceId });
    await gate();
    await taskService.complete(task, new Variables().set("done_by", WORKER));
  },
};

const client = new Client({
  baseUrl: ENGINE_REST,
  workerId: WORKER,
  autoPoll: false,
  interval: 10,
  asyncResponseTimeout: 20000,
  lockDuration: 60000,
  interceptors: KEY ? new BasicAuthInterceptor({ username: "anybody", password: KEY }) : undefined,
  ...JSON.parse(OPTIONS),
});

let polls = 0;
client.on("poll:start", () => (polls += 1));
client.on("poll:success", (tasks) => tell("polled", { polls, tasks: tasks.length }));
client.on("poll:error", (error) => tell("poll failed", told(error)));
client.on("handler:error", (error) => tell("handler failed", told(error)));
for (const topic of TOPICS.split(",")) {
  const { name = topic, ...subscription } = JSON.parse(process.env[`TOPIC_${topic}`] ?? "{}");
  client.subscribe(name, subscription, async ({ task, taskService }) => {
    tell("began", { task: task.id, topic, instance: task.processInstanceId, context: { ...task, variables: undefined } });
    try {
      await deeds[topic](task, taskService);
      tell("ended", { task: task.id, topic, instance: task.processInstanceId });
    } catch (error) {
      tell("refused", { task: task.id, topic, ...told(error) });
    }
  });
}
client.start();
tell("ready");
