// An external worker in JavaScript, with nothing but Node (18 or newer): reserves stock and releases it again.
//
// All there is to the protocol: fetch and lock, extend the lease while at it, act outside under the task's id, complete. The
// server decides whose the task is: a report that comes too late is refused with 409, and somebody else has it.

import { appendFileSync } from "node:fs";

const { WORKER, API_URL, OUTSIDE_URL, DEMO_API_KEY, DIARY, PAUSE_MS } = process.env;
const TOPICS = ["order.reserve", "order.release"];
const AT_ONCE = 4;
const LEASE_MS = 3000;
const POLL_MS = 2000;
const TRIES = 20;
const diary = DIARY.replace("PID", process.pid);

let stopping = false;
process.on("SIGTERM", () => (stopping = true));

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const note = (what, task) => appendFileSync(diary, JSON.stringify([what, task.task_id, task.fencing_token]) + "\n");

async function post(url, body, headers = {}) {
  const answer = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(POLL_MS + 10_000),
  });
  return { status: answer.status, body: await answer.json() };
}

const celeriac = (path, body) => post(API_URL + path, { worker_id: WORKER, ...body }, { "x-api-key": DEMO_API_KEY });

// The same report twice has the same answer, so it may be sent again when no answer came or the server was away.
async function report(task, verb, body) {
  for (let tries = 0; tries < TRIES; tries++) {
    try {
      const answer = await celeriac(`/v1/external-tasks/${task.task_id}/${verb}`, {
        fencing_token: task.fencing_token,
        ...body,
      });
      if (answer.status < 500 && answer.status !== 429) return answer;
    } catch (error) {
      console.log(`${verb} ${task.task_id}: ${error}`);
    }
    await sleep(200);
  }
  return { status: 0 };
}

// A lease says how soon others take over when this process dies, not how long the work may take.
async function held(task, work) {
  const body = { fencing_token: task.fencing_token, lock_duration_ms: LEASE_MS };
  const extend = () => celeriac(`/v1/external-tasks/${task.task_id}/extend-lock`, body).catch(console.log);
  const timer = setInterval(extend, LEASE_MS / 3);
  await work();
  clearInterval(timer);
}

async function act(task) {
  note("begun", task);
  const step = task.task_type.slice("order.".length);
  const call = { order: task.business_key, key: task.task_id, fencing_token: task.fencing_token };
  const done = await post(`${OUTSIDE_URL}/${step}`, call);
  if (done.status !== 200) throw new Error(`the warehouse answered ${done.status}`);
  note("written", task);
  await sleep(Number(PAUSE_MS));
  note("reporting", task);
  const answer = await report(task, "complete", { variables: { [`${step}_reference`]: done.body.reference } });
  if (answer.status === 200) note("accepted", task);
  if (answer.status === 409) note("refused", task);
}

async function work() {
  while (!stopping) {
    let tasks = [];
    try {
      const found = await celeriac("/v1/external-tasks/fetch-and-lock", {
        task_types: TOPICS,
        max_tasks: AT_ONCE,
        lock_duration_ms: LEASE_MS,
        wait_ms: POLL_MS,
      });
      if (found.status !== 200) throw new Error(JSON.stringify(found.body));
      tasks = found.body;
    } catch (error) {
      console.log(`fetch: ${error}`);
      await sleep(500);
    }
    const failed = (task) => (error) => report(task, "fail", { error: String(error), retry_after_ms: 1000 });
    await Promise.all(tasks.map((task) => held(task, () => act(task).catch(failed(task)))));
  }
}

await work();
