// Archives and passages from @letta-ai/letta-client: made, shared, searched, forgotten.

import assert from "node:assert/strict";
import { test } from "node:test";

import { NotFoundError, UnprocessableEntityError } from "@letta-ai/letta-client";

import { EMBEDDING, all, idOf, modern, newAgent, unique } from "./support.mjs";

test("an archive and its passages come, change and go", async () => {
  const name = unique("facts");
  const made = await modern.archives.create({ name, description: "Facts", embedding: EMBEDDING });
  assert.match(made.id, idOf("archive"));
  assert.equal(made.embedding_config.handle, EMBEDDING);
  assert.deepEqual(await modern.archives.retrieve(made.id), made);
  const changed = await modern.archives.update(made.id, { description: "More" });
  assert.equal(changed.description, "More");
  const listed = await all(modern.archives.list({ name }));
  assert.deepEqual(listed, [changed]);

  const passages = modern.archives.passages;
  const one = await passages.create(made.id, { text: "Ada walks", tags: ["a"], metadata: { n: 1 } });
  assert.deepEqual([one.text, one.tags, one.metadata], ["Ada walks", ["a"], { n: 1 }]);
  assert.match(one.id, idOf("passage"));
  const many = await passages.createMany(made.id, { passages: [{ text: "b" }, { text: "c" }] });
  assert.deepEqual(many.map((each) => each.text), ["b", "c"]);
  await assert.rejects(passages.create(made.id, { text: " " }), UnprocessableEntityError);

  const search = (fields) => modern.passages.search({ archive_id: made.id, ...fields });
  const [best] = await search({ query: "Ada walks", limit: 1 });
  assert.equal(best.passage.id, one.id);
  assert.equal(typeof best.score, "number");
  assert.equal((await search({ query: "b", tags: ["a"] })).length, 1);
  await passages.delete(one.id, { archive_id: made.id });
  assert.equal((await search({})).length, 2);
  await modern.archives.delete(made.id);
  await assert.rejects(modern.archives.retrieve(made.id), NotFoundError);
  await assert.rejects(search({}), NotFoundError);
});

test("an agent remembers, searches and forgets, also what is shared", async () => {
  const agent = await newAgent();
  const memory = modern.agents.passages;
  const [made] = await memory.create(agent.id, { text: "Bob likes hiking", tags: ["hobby"] });
  assert.deepEqual((await memory.list(agent.id)).map((one) => one.id), [made.id]);
  const found = await memory.search(agent.id, { query: "hiking", top_k: 2, tags: ["hobby"] });
  assert.equal(found.count, 1);
  assert.equal(found.results[0].content, "Bob likes hiking");

  const shared = await modern.archives.create({ name: unique("shared") });
  await modern.archives.passages.create(shared.id, { text: "All like hiking" });
  await modern.agents.archives.attach(shared.id, { agent_id: agent.id });
  assert.equal((await memory.search(agent.id, { query: "hiking" })).count, 2);
  await modern.agents.archives.detach(shared.id, { agent_id: agent.id });
  assert.equal((await memory.search(agent.id, { query: "hiking" })).count, 1);

  await memory.delete(made.id, { agent_id: agent.id });
  assert.deepEqual(await memory.list(agent.id), []);
  await assert.rejects(memory.delete(made.id, { agent_id: agent.id }), NotFoundError);
});
