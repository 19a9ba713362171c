// Runs, models, health and errors from @letta-ai/letta-client.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  BadRequestError,
  ConflictError,
  InternalServerError,
  NotFoundError,
  UnprocessableEntityError,
} from "@letta-ai/letta-client";

import {
  CALL,
  DATE,
  EMBEDDING,
  MODEL,
  NOBODY,
  all,
  idOf,
  modern,
  newAgent,
  says,
  unique,
} from "./support.mjs";

test("a run says what became of a message", async () => {
  const agent = await newAgent();
  const answer = await modern.agents.messages.create(agent.id, { messages: says(CALL) });
  const id = answer.messages[0].run_id;

  const run = await modern.runs.retrieve(id);

  assert.match(run.id, idOf("run"));
  assert.equal(run.id, id);
  assert.equal(run.agent_id, agent.id);
  assert.deepEqual([run.status, run.stop_reason, run.background], ["completed", "end_turn", false]);
  assert.match(run.created_at, DATE);
  assert.match(run.completed_at, DATE);
  const usage = await modern.runs.usage.retrieve(id);
  assert.equal(usage.total_tokens, answer.usage.total_tokens);
});

test("runs are listed in pages", async () => {
  const agent = await newAgent();
  const made = [];
  for (let n = 0; n < 5; n += 1) {
    const answer = await modern.agents.messages.create(agent.id, { messages: says("Hello") });
    made.push(answer.messages[0].run_id);
  }

  const paged = await all(modern.runs.list({ agent_id: agent.id, limit: 2, order: "asc" }));

  assert.deepEqual(
    paged.map((run) => run.id),
    made,
  );
});

test("models and health are told", async () => {
  const [models, embeddings, health] = [
    await modern.models.list(),
    await modern.models.embeddings.list(),
    await modern.health(),
  ];

  const model = models.find((one) => one.handle === MODEL);
  assert.deepEqual([model.name, model.provider_name], ["gpt-4o-mini", "openai"]);
  assert.equal(embeddings.find((one) => one.handle === EMBEDDING).embedding_dim, 1536);
  assert.deepEqual([health.status, health.version], ["ok", "0.16.8"]);
});

test("what is not there is a NotFoundError that names it", async () => {
  for (const [kind, asked] of [
    ["agent", () => modern.agents.retrieve(`agent-${NOBODY}`)],
    ["agent", () => modern.agents.update(`agent-${NOBODY}`, { name: "x" })],
    ["agent", () => modern.agents.delete(`agent-${NOBODY}`)],
    ["agent", () => modern.agents.messages.create(`agent-${NOBODY}`, { input: "x" })],
    ["agent", () => modern.agents.messages.stream(`agent-${NOBODY}`, { input: "x" })],
    ["block", () => modern.blocks.retrieve(`block-${NOBODY}`)],
    ["run", () => modern.runs.retrieve(`run-${NOBODY}`)],
  ]) {
    await assert.rejects(asked(), (problem) => {
      assert.ok(problem instanceof NotFoundError);
      assert.match(problem.error.detail, new RegExp(`${kind}-${NOBODY}`));
      return true;
    });
  }
});

test("what cannot be is an UnprocessableEntityError that says why", async () => {
  const agent = await newAgent();
  for (const [said, asked] of [
    [/agent_id/, () => modern.agents.retrieve("x")],
    [/label/, () => modern.blocks.create({ value: "x" })],
    [
      /role/,
      () => modern.agents.messages.create(agent.id, { messages: [{ role: "tool", content: "x" }] }),
    ],
    [/limit/, () => modern.agents.list({ limit: "many" })],
  ]) {
    await assert.rejects(asked(), (problem) => {
      assert.ok(problem instanceof UnprocessableEntityError);
      assert.match(problem.error.detail, said);
      return true;
    });
  }
  await assert.rejects(modern.agents.create({ model: "nobody/knows" }), (problem) => {
    assert.match(problem.error.detail, /nobody\/knows/);
    return problem instanceof NotFoundError || problem instanceof BadRequestError;
  });
});

test("a conflict is a ConflictError, and is not tried again", async () => {
  let requests = 0;
  const counting = modern.withOptions({
    maxRetries: 2,
    fetch: (...words) => {
      requests += 1;
      return fetch(...words);
    },
  });
  const agent = await newAgent();
  const headers = { "idempotency-key": unique("key") };
  await counting.agents.messages.create(agent.id, { messages: says("one") }, { headers });

  await assert.rejects(
    counting.agents.messages.create(agent.id, { messages: says("two") }, { headers }),
    ConflictError,
  );
  assert.equal(requests, 2);
});

test("what is not built says so at once", async () => {
  await assert.rejects(modern.accessTokens.list(), (problem) => {
    assert.ok(problem instanceof InternalServerError);
    assert.equal(problem.status, 501);
    assert.match(problem.error.detail, /not built/);
    return true;
  });
});
