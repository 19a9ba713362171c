// Agents from @letta-ai/letta-client: every field comes back, changes and goes.

import assert from "node:assert/strict";
import { test } from "node:test";

import { NotFoundError } from "@letta-ai/letta-client";

import {
  DATE,
  DEFAULT_TOOLS,
  EMBEDDING,
  MODEL,
  all,
  idOf,
  modern,
  newAgent,
  unique,
} from "./support.mjs";

const FIELDS = {
  agent_type: "letta_v1_agent",
  system: "You are a librarian.",
  description: "Knows the shelves",
  metadata: { floor: 3, rooms: ["a", "b"], nested: { yes: true, none: null } },
  model: MODEL,
  embedding: EMBEDDING,
  model_settings: {
    provider_type: "openai",
    temperature: 0.25,
    max_output_tokens: 1_234,
    parallel_tool_calls: false,
    reasoning: { reasoning_effort: "low" },
    response_format: { type: "text" },
    strict: true,
  },
  compaction_settings: {
    mode: "all",
    model: "openai/gpt-4.1-mini",
    model_settings: null,
    prompt: "Be short.",
    clip_chars: 1_000,
    prompt_acknowledgement: true,
    sliding_window_percentage: 0.5,
  },
  tags: ["alpha", "beta"],
  response_format: { type: "text" },
  project_id: "project-of-the-library",
  template_id: "template-1",
  base_template_id: "base-template-1",
  message_buffer_autoclear: false,
  timezone: "Europe/Berlin",
  max_files_open: 7,
  per_file_view_window_char_limit: 9_000,
  hidden: false,
};
const CHANGES = {
  name: unique("renamed"),
  system: "You are a gardener.",
  description: "Knows the beds",
  metadata: { green: true },
  model: "openai/gpt-4.1-mini",
  tags: ["gamma"],
  timezone: "UTC",
  max_files_open: 2,
  per_file_view_window_char_limit: 1_000,
  hidden: true,
};
const INCLUDE = { include: ["agent.blocks", "agent.tools", "agent.tags", "agent.secrets"] };

test("every field of a new agent comes back", async () => {
  const name = unique("librarian");
  const shared = await modern.blocks.create({ label: "shelves", value: "A to Z" });

  const created = await modern.agents.create({
    ...FIELDS,
    name,
    context_window_limit: 16_000,
    embedding_chunk_size: 512,
    include_base_tool_rules: false,
    memory_blocks: [
      {
        label: "rules",
        value: "Silence.",
        limit: 500,
        description: "House rules",
        read_only: true,
      },
    ],
    block_ids: [shared.id],
  });
  const read = await modern.agents.retrieve(created.id, INCLUDE);

  assert.match(created.id, idOf("agent"));
  assert.equal(read.id, created.id);
  assert.equal(read.name, name);
  for (const [field, value] of Object.entries(FIELDS)) assert.deepEqual(read[field], value, field);
  assert.match(read.created_at, DATE);
  assert.equal(read.updated_at, read.created_at);
  assert.equal(read.llm_config.context_window, 16_000);
  assert.equal(read.embedding_config.embedding_chunk_size, 512);
  assert.deepEqual(
    read.tools.map((tool) => tool.name),
    DEFAULT_TOOLS,
  );
  assert.deepEqual(
    read.blocks.map((block) => block.label),
    ["rules", "shelves"],
  );
  const [rules, shelves] = read.blocks;
  assert.equal(shelves.id, shared.id);
  assert.deepEqual(
    [rules.value, rules.limit, rules.description, rules.read_only],
    ["Silence.", 500, "House rules", true],
  );
  assert.deepEqual(read.memory.blocks, read.blocks);
  assert.deepEqual([read.tool_rules, read.secrets, read.identity_ids], [[], [], []]);
  assert.equal(read.message_ids.length, 1);
  assert.equal(read.last_stop_reason, null);
  const bare = await modern.agents.retrieve(created.id);
  assert.deepEqual([bare.blocks, bare.tools, bare.tags], [[], [], []]);
});

test("every field of an agent changes alone", async () => {
  const { id } = await newAgent(FIELDS);
  let before = await modern.agents.retrieve(id, INCLUDE);

  for (const [field, value] of Object.entries(CHANGES)) {
    const updated = await modern.agents.update(id, { [field]: value });
    const after = await modern.agents.retrieve(id, INCLUDE);
    assert.deepEqual(after[field], value, field);
    assert.equal(updated.id, id);
    const touched = field === "model" ? ["model", "llm_config", "model_settings"] : [field];
    for (const other of Object.keys(before)) {
      if (touched.includes(other) || other === "updated_at") continue;
      if (field === "system" && other === "message_ids") continue;
      assert.deepEqual(after[other], before[other], `${field} leaves ${other}`);
    }
    before = after;
  }
});

test("agents are listed in pages and by name", async () => {
  const tag = unique("page");
  const made = [];
  for (let n = 0; n < 5; n += 1)
    made.push((await newAgent({ tags: [tag], name: `${tag}-${n}` })).id);

  const paged = await all(modern.agents.list({ tags: [tag], limit: 2, order: "asc" }));
  const backwards = await all(modern.agents.list({ tags: [tag], limit: 2 }));
  const named = await modern.agents.list({ name: `${tag}-3` });
  const first = await modern.agents.list({ tags: [tag], limit: 2, order: "asc" });
  const second = await first.getNextPage();

  assert.deepEqual(
    paged.map((agent) => agent.id),
    made,
  );
  assert.deepEqual(
    backwards.map((agent) => agent.id),
    made.toReversed(),
  );
  assert.deepEqual(
    named.items.map((agent) => agent.id),
    [made[3]],
  );
  assert.deepEqual(
    second.items.map((agent) => agent.id),
    made.slice(2, 4),
  );
  assert.equal(first.hasNextPage(), true);
});

test("a deleted agent is gone", async () => {
  const { id, name } = await newAgent();

  const { message } = await modern.agents.delete(id);

  assert.match(message, new RegExp(`${id}.* deleted`));

  await assert.rejects(modern.agents.retrieve(id), NotFoundError);
  await assert.rejects(modern.agents.messages.list(id), NotFoundError);
  assert.deepEqual((await modern.agents.list({ name })).items, []);
});
