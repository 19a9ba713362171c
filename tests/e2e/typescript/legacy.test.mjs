// The client from before 1.0 (npm @letta-ai/letta-client 0.0.68665), which other packages bundle.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Letta as LegacyTypes, LettaError } from "letta-legacy";

import {
  CALL,
  DEFAULT_TOOLS,
  EMBEDDING,
  HELLO,
  MODEL,
  NOBODY,
  all,
  baseUrl,
  calm,
  idOf,
  kinds,
  legacy,
  says,
  unique,
} from "./support.mjs";

const { NotFoundError, UnprocessableEntityError } = LegacyTypes;
const USER_AGENT = "@letta-ai/letta-client/0.0.68665";
const TURN = ["tool_call_message", "tool_return_message", "assistant_message"];
const FIELDS = {
  agentType: "letta_v1_agent",
  system: "You are a librarian.",
  description: "Knows the shelves",
  metadata: { floor: 3, nested: { yes: true } },
  tags: ["alpha", "beta"],
  projectId: "project-of-the-library",
  templateId: "template-1",
  baseTemplateId: "base-template-1",
  messageBufferAutoclear: false,
  responseFormat: { type: "text" },
  timezone: "Europe/Berlin",
  maxFilesOpen: 7,
  perFileViewWindowCharLimit: 9_000,
  hidden: false,
};
const CHANGES = {
  name: unique("renamed"),
  system: "You are a gardener.",
  description: "Knows the beds",
  metadata: { green: true },
  tags: ["gamma"],
  timezone: "UTC",
  maxFilesOpen: 2,
  perFileViewWindowCharLimit: 1_000,
  hidden: true,
};

const newAgent = (fields = {}) =>
  legacy.agents.create({
    name: unique("old"),
    model: MODEL,
    embedding: EMBEDDING,
    memoryBlocks: [
      { label: "human", value: "Name: Ada" },
      { label: "persona", value: "I am kind." },
    ],
    ...fields,
  });

test("legacy: an agent comes back whole, with everything that belongs to it", async () => {
  const name = unique("librarian");

  const created = await newAgent({ ...FIELDS, name, contextWindowLimit: 16_000 });
  const read = await legacy.agents.retrieve(created.id);
  const [listed] = await legacy.agents.list({ name });

  for (const agent of [created, read, listed]) {
    assert.match(agent.id, idOf("agent"));
    assert.equal(agent.name, name);
    for (const [field, value] of Object.entries(FIELDS))
      assert.deepEqual(agent[field], value, field);
    assert.deepEqual([agent.llmConfig.handle, agent.llmConfig.contextWindow], [MODEL, 16_000]);
    assert.equal(agent.embeddingConfig.handle, EMBEDDING);
    assert.deepEqual(
      agent.memory.blocks.map((block) => block.label),
      ["human", "persona"],
    );
    assert.deepEqual(
      agent.tools.map((tool) => tool.name),
      DEFAULT_TOOLS,
    );
    assert.deepEqual([agent.sources, agent.toolRules, agent.identityIds], [[], [], []]);
    assert.ok(agent.createdAt instanceof Date);
  }
  assert.deepEqual(read, created);
  assert.deepEqual(listed, created);
});

test("legacy: every field of an agent changes alone, and the agent goes", async () => {
  const { id } = await newAgent(FIELDS);
  let before = await legacy.agents.retrieve(id);

  for (const [field, value] of Object.entries(CHANGES)) {
    const updated = await legacy.agents.modify(id, { [field]: value });
    assert.deepEqual(updated[field], value, field);
    for (const other of Object.keys(before)) {
      if (other === field || other === "updatedAt" || other === "messageIds") continue;
      assert.deepEqual(updated[other], before[other], `${field} leaves ${other}`);
    }
    assert.deepEqual(await legacy.agents.retrieve(id), updated);
    before = updated;
  }
  const counted = await legacy.agents.count();
  assert.ok(counted >= 1);
  await legacy.agents.delete(id);
  await assert.rejects(legacy.agents.retrieve(id), { statusCode: 404 });
});

test("legacy: pages of agents follow each other", async () => {
  const tag = unique("page");
  const made = [];
  for (let n = 0; n < 3; n += 1) made.push((await newAgent({ tags: [tag] })).id);

  const first = await legacy.agents.list({ tags: [tag], limit: 2, order: "asc" });
  const rest = await legacy.agents.list({
    tags: [tag],
    limit: 2,
    order: "asc",
    after: first[1].id,
  });

  assert.deepEqual(
    [...first, ...rest].map((agent) => agent.id),
    made,
  );
});

test("legacy: blocks come back, change, are attached, detached and go", async () => {
  const fields = {
    label: unique("notes"),
    value: "One\nTwo – ünïcödé 🐕",
    limit: 50,
    description: "What was noted",
    metadata: { colour: "red" },
    readOnly: false,
    projectId: "project-1",
    hidden: false,
  };
  const created = await legacy.blocks.create(fields);
  const agent = await newAgent();

  assert.match(created.id, idOf("block"));
  for (const [field, value] of Object.entries(fields))
    assert.deepEqual(created[field], value, field);
  assert.deepEqual(await legacy.blocks.retrieve(created.id), created);
  const changed = await legacy.blocks.modify(created.id, { value: "Three", limit: 20 });
  assert.deepEqual(changed, { ...created, value: "Three", limit: 20 });
  assert.deepEqual(await legacy.blocks.list({ label: fields.label }), [changed]);
  assert.ok((await legacy.blocks.count()) >= 1);
  const attached = await legacy.agents.blocks.attach(agent.id, created.id);
  assert.ok(attached.memory.blocks.some((block) => block.id === created.id));
  await legacy.agents.blocks.modify(agent.id, fields.label, { value: "Four" });
  assert.equal((await legacy.blocks.retrieve(created.id)).value, "Four");
  const detached = await legacy.agents.blocks.detach(agent.id, created.id);
  assert.ok(!detached.memory.blocks.some((block) => block.id === created.id));
  await legacy.blocks.delete(created.id);
  await assert.rejects(legacy.blocks.retrieve(created.id), { statusCode: 404 });
});

test("legacy: core memory is the agent's blocks", async () => {
  const agent = await newAgent();

  const memory = await legacy.agents.coreMemory.retrieve(agent.id);

  assert.deepEqual(memory, agent.memory);
  assert.deepEqual(await legacy.agents.blocks.list(agent.id, { order: "asc" }), memory.blocks);
  const human = await legacy.agents.blocks.retrieve(agent.id, "human");
  assert.deepEqual(human, memory.blocks[0]);
});

test("legacy: a message is answered with a tool call, its result and a text", async () => {
  const agent = await newAgent();

  const answer = await legacy.agents.messages.create(agent.id, { messages: says(CALL) });

  const [call, result, said] = answer.messages;
  assert.deepEqual(kinds(answer.messages), TURN);
  assert.equal(call.toolCall.name, "memory_insert");
  assert.deepEqual(JSON.parse(call.toolCall.arguments), {
    label: "human",
    new_string: "Likes tea",
  });
  assert.deepEqual([result.status, result.toolReturn], ["success", "Name: Ada\nLikes tea"]);
  assert.equal(said.content, HELLO);
  assert.ok(said.date instanceof Date);
  assert.equal(answer.stopReason.stopReason, "end_turn");
  assert.equal(answer.usage.stepCount, 2);
});

test("legacy: createStream tells the steps and its end, and history has the same", async () => {
  const agent = await newAgent();

  const stream = await legacy.agents.messages.createStream(agent.id, { messages: says(CALL) });
  const events = calm(await all(stream));

  assert.deepEqual(kinds(events), ["ping", ...TURN, "stop_reason", "usage_statistics"]);
  assert.equal(events.at(-2).stopReason, "end_turn");
  assert.equal(events.at(-1).stepCount, 2);
  const history = await legacy.agents.messages.list(agent.id);
  assert.deepEqual(
    history.slice(-3),
    events.filter((one) => TURN.includes(one.messageType)),
  );
  const [last] = await legacy.agents.messages.list(agent.id, { limit: 1 });
  assert.deepEqual(last, history.at(-1));
  const before = await legacy.agents.messages.list(agent.id, {
    limit: 2,
    before: history.at(-1).id,
  });
  assert.deepEqual(before, history.slice(-3, -1));
});

test("legacy: tokens come one by one and add up to history", async () => {
  const agent = await newAgent();
  const text = "Grüße, 世界 🐕, and a quick brown fox. ".repeat(3).trim();

  const stream = await legacy.agents.messages.createStream(agent.id, {
    messages: says(`${CALL} SAY:${text}`),
    streamTokens: true,
  });
  const events = await all(stream);

  const pieces = events.filter((one) => one.messageType === "assistant_message");
  assert.ok(pieces.length > 5);
  assert.equal(pieces.map((one) => one.content).join(""), text);
  const history = await legacy.agents.messages.list(agent.id);
  assert.equal(history.at(-1).content, text);
});

test("legacy: an async message is followed by its run, and can be cancelled", async () => {
  const agent = await newAgent();

  const run = await legacy.agents.messages.createAsync(agent.id, { messages: says("Hello") });
  const events = await all(await legacy.runs.stream(run.id));
  const unwanted = await legacy.agents.messages.createAsync(agent.id, {
    messages: says("SLOW:20000"),
  });
  const outcome = await legacy.agents.messages.cancel(agent.id, { runIds: [unwanted.id] });

  assert.ok(kinds(events).includes("assistant_message"));
  assert.equal((await legacy.runs.retrieve(run.id)).status, "completed");
  assert.deepEqual(outcome, { [unwanted.id]: "cancelled" });
  assert.equal((await legacy.runs.retrieve(unwanted.id)).status, "cancelled");
});

test("legacy: streaming: true is refused, for such clients know it as another path", async () => {
  const agent = await newAgent();

  const answer = await fetch(`${baseUrl}/v1/agents/${agent.id}/messages`, {
    method: "POST",
    headers: { "content-type": "application/json", "user-agent": USER_AGENT },
    body: JSON.stringify({ messages: says("Hello"), streaming: true }),
  });

  assert.equal(answer.status, 422);
  assert.match((await answer.json()).detail, /messages\/stream/);
  assert.deepEqual(await legacy.runs.list({ agentId: agent.id }), []);
});

test("legacy: runs are listed and retrieved", async () => {
  const agent = await newAgent();
  const answer = await legacy.agents.messages.create(agent.id, { messages: says("Hello") });

  const run = await legacy.runs.retrieve(answer.messages[0].runId);

  assert.deepEqual([run.agentId, run.status, run.stopReason], [agent.id, "completed", "end_turn"]);
  assert.ok(run.completedAt instanceof Date);
  assert.deepEqual(await legacy.runs.list({ agentId: agent.id }), [run]);
  assert.deepEqual(await legacy.runs.listActive({ agentId: agent.id }), []);
});

test("legacy: health and models are told", async () => {
  const health = await legacy.health.check();
  const models = await legacy.models.list();
  const embeddings = await legacy.models.listembeddingmodels();

  assert.deepEqual([health.status, health.version], ["ok", "0.16.8"]);
  const model = models.find((one) => one.handle === MODEL);
  assert.deepEqual([model.model, model.modelEndpointType], ["gpt-4o-mini", "openai"]);
  assert.ok(embeddings === undefined || embeddings.length > 0); // typed as nothing in this version
});

test("legacy: errors are of the client's own kinds", async () => {
  const missing = `agent-${NOBODY}`;
  for (const asked of [
    () => legacy.agents.retrieve(missing),
    () => legacy.agents.modify(missing, { name: "x" }),
    () => legacy.agents.delete(missing),
    () => legacy.agents.messages.create(missing, { messages: says("x") }),
    () => legacy.agents.coreMemory.retrieve(missing),
    () => legacy.blocks.retrieve(`block-${NOBODY}`),
    () => legacy.runs.retrieve(`run-${NOBODY}`),
  ]) {
    await assert.rejects(asked(), (problem) => {
      assert.ok(problem instanceof LettaError || problem instanceof NotFoundError);
      assert.equal(problem.statusCode, 404);
      assert.match(JSON.stringify(problem.body), new RegExp(NOBODY));
      return true;
    });
  }
  // Of a stream that is refused this client keeps the body to itself.
  const stream = legacy.agents.messages.createStream(missing, { messages: says("x") });
  await assert.rejects(stream, { statusCode: 404 });
  await assert.rejects(legacy.agents.retrieve("x"), (problem) => {
    assert.ok(problem instanceof UnprocessableEntityError);
    assert.match(JSON.stringify(problem.body), /agent_id/);
    return true;
  });
});
