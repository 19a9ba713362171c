// Folders and their files from @letta-ai/letta-client: made, filled, read, emptied.

import assert from "node:assert/strict";
import { setTimeout } from "node:timers/promises";
import { test } from "node:test";

import { ConflictError, NotFoundError, toFile } from "@letta-ai/letta-client";

import { all, idOf, modern, newAgent, unique } from "./support.mjs";

test("a folder and its files come, change and go", async () => {
  const name = unique("folder");
  const made = await modern.folders.create({ name, metadata: { a: [1] } });
  assert.match(made.id, idOf("source"));
  assert.deepEqual(made.metadata, { a: [1] });
  assert.deepEqual(await modern.folders.retrieve(made.id), made);
  await assert.rejects(modern.folders.create({ name }), ConflictError);
  const changed = await modern.folders.update(made.id, { description: "More" });
  assert.equal(changed.description, "More");
  assert.deepEqual(await all(modern.folders.list({ name })), [changed]);

  const files = modern.folders.files;
  const sent = await toFile(Buffer.from("hello file contents"), "n.txt");
  const uploaded = await files.upload(made.id, { file: sent });
  assert.equal(uploaded.processing_status, "parsing");
  assert.equal(uploaded.file_name, `${name}/n.txt`);
  const where = { folder_id: made.id, include_content: true };
  let file = await files.retrieve(uploaded.id, where);
  while (file.processing_status !== "completed") {
    assert.notEqual(file.processing_status, "error", file.error_message);
    await setTimeout(50);
    file = await files.retrieve(uploaded.id, where);
  }
  assert.equal(file.content, "hello file contents");
  assert.deepEqual((await all(files.list(made.id))).map((one) => one.id), [file.id]);

  const agent = await newAgent();
  await modern.agents.folders.attach(made.id, { agent_id: agent.id });
  assert.deepEqual(await modern.folders.agents.list(made.id), [agent.id]);

  const where_agent = { agent_id: agent.id };
  assert.deepEqual(
    (await all(modern.agents.folders.list(agent.id))).map((one) => one.id), [made.id]);
  const seen = await modern.agents.files.list(agent.id);
  assert.deepEqual(seen.files.map((one) => [one.file_name, one.is_open]), [[`${name}/n.txt`, true]]);
  assert.match(seen.files[0].visible_content, /1: hello file contents/);
  await modern.agents.files.close(file.id, where_agent);
  assert.deepEqual(await modern.agents.files.open(file.id, where_agent), []);
  assert.deepEqual(await modern.agents.files.closeAll(agent.id), [`${name}/n.txt`]);
  await modern.agents.folders.detach(made.id, where_agent);
  assert.deepEqual(await all(modern.agents.folders.list(agent.id)), []);

  await files.delete(file.id, { folder_id: made.id });
  await assert.rejects(files.retrieve(file.id, where), NotFoundError);
  assert.deepEqual(await all(files.list(made.id)), []);
  await modern.folders.delete(made.id);
  await assert.rejects(modern.folders.retrieve(made.id), NotFoundError);
});
