// Blocks from @letta-ai/letta-client: on their own, attached, shared.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ConflictError, NotFoundError } from "@letta-ai/letta-client";

import { all, idOf, modern, newAgent, unique } from "./support.mjs";

const FIELDS = {
  label: "notes",
  value: "One\nTwo – ünïcödé 🐕",
  limit: 50,
  description: "What was noted",
  metadata: { colour: "red", deep: { list: [1, null] } },
  read_only: true,
  tags: ["blue", "red"],
  hidden: true,
  is_template: true,
  template_name: "a-template",
  base_template_id: "base-1",
  deployment_id: "deployment-1",
  entity_id: "entity-1",
  project_id: "project-1",
  preserve_on_migration: true,
};
const CHANGES = {
  label: "notices",
  value: "Three",
  limit: 5,
  description: null,
  metadata: {},
  read_only: false,
  tags: ["green"],
  hidden: null,
  project_id: "project-2",
};

test("every field of a block comes back, changes and goes", async () => {
  const created = await modern.blocks.create(FIELDS);
  const expected = { ...FIELDS, id: created.id };

  assert.match(created.id, idOf("block"));
  assert.deepEqual(pick(await modern.blocks.retrieve(created.id), expected), expected);
  for (const [field, value] of Object.entries(CHANGES)) {
    expected[field] = value;
    assert.deepEqual(
      pick(await modern.blocks.update(created.id, { [field]: value }), expected),
      expected,
    );
    assert.deepEqual(pick(await modern.blocks.retrieve(created.id), expected), expected);
  }
  assert.equal(await modern.blocks.delete(created.id), null);
  await assert.rejects(modern.blocks.retrieve(created.id), NotFoundError);
  await assert.rejects(modern.blocks.update(created.id, { value: "x" }), NotFoundError);
  await assert.rejects(modern.blocks.delete(created.id), NotFoundError);
});

test("blocks are listed in pages", async () => {
  const label = unique("page");
  const made = [];
  for (let n = 0; n < 5; n += 1)
    made.push((await modern.blocks.create({ label, value: `${n}` })).id);

  const paged = await all(modern.blocks.list({ label, limit: 2, order: "asc" }));

  assert.deepEqual(
    paged.map((block) => block.id),
    made,
  );
});

test("a block is attached, shared, changed by its label and detached", async () => {
  const label = unique("shared");
  const block = await modern.blocks.create({ label, value: "empty" });
  const [one, other] = [await newAgent(), await newAgent({ block_ids: [block.id] })];

  const attached = await modern.agents.blocks.attach(block.id, { agent_id: one.id });
  await modern.agents.blocks.update(label, { agent_id: one.id, value: "full" });

  assert.equal(attached.id, one.id);
  assert.deepEqual(
    attached.memory.blocks.map((each) => each.label).sort(),
    ["human", "persona", label].sort(),
  );
  assert.equal((await modern.agents.blocks.retrieve(label, { agent_id: other.id })).value, "full");
  assert.equal((await modern.blocks.retrieve(block.id)).value, "full");
  const holders = await all(modern.blocks.agents.list(block.id));
  assert.deepEqual(holders.map((agent) => agent.id).sort(), [one.id, other.id].sort());
  const listed = await all(modern.agents.blocks.list(one.id));
  assert.ok(listed.some((each) => each.id === block.id));
  await assert.rejects(
    modern.agents.blocks.attach((await modern.blocks.create({ label, value: "" })).id, {
      agent_id: one.id,
    }),
    ConflictError,
  );

  const detached = await modern.agents.blocks.detach(block.id, { agent_id: one.id });

  assert.ok(!detached.memory.blocks.some((each) => each.id === block.id));
  await assert.rejects(modern.agents.blocks.retrieve(label, { agent_id: one.id }), NotFoundError);
  assert.equal((await modern.agents.blocks.retrieve(label, { agent_id: other.id })).value, "full");
});

/** The fields of `block` that `expected` has. */
function pick(block, expected) {
  return Object.fromEntries(Object.keys(expected).map((field) => [field, block[field]]));
}
