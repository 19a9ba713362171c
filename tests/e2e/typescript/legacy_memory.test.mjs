// What agents remember, from the client from before 1.0: archives, passages, sources, folders, files.

import assert from "node:assert/strict";
import { setTimeout } from "node:timers/promises";
import { test } from "node:test";

import { EMBEDDING, MODEL, idOf, legacy, unique } from "./support.mjs";

const TEXT = "The harbour of Lisbon is wide.";
const GONE = { statusCode: 404 };

const newAgent = () =>
  legacy.agents.create({ name: unique("old"), model: MODEL, embedding: EMBEDDING });

/** The file of a folder once it can be searched. */
const completed = async (folder, id) => {
  for (;;) {
    const file = await legacy.sources.getFileMetadata(folder, id, { includeContent: true });
    assert.notEqual(file.processingStatus, "error", file.errorMessage);
    if (file.processingStatus === "completed") return file;
    await setTimeout(50);
  }
};

const textFile = (name) => new File([TEXT], name, { type: "text/plain" });
const ids = (found) => found.map((one) => one.id);

test("legacy: archives are made, changed and listed", async () => {
  const name = unique("facts");

  const made = await legacy.archives.createArchive({ name, embedding: EMBEDDING });
  const changed = await legacy.archives.modifyArchive(made.id, { description: "More" });

  assert.match(made.id, idOf("archive"));
  assert.deepEqual([changed.id, changed.description], [made.id, "More"]);
  assert.deepEqual(await legacy.archives.listArchives({ name }), [changed]);
});

test("legacy: an agent remembers, searches and forgets", async () => {
  const agent = await newAgent();
  const memory = legacy.agents.passages;

  const [made] = await memory.create(agent.id, { text: "Bob likes hiking", tags: ["hobby"] });
  const found = await memory.search(agent.id, { query: "hiking", topK: 2, tags: ["hobby"] });

  assert.match(made.id, idOf("passage"));
  assert.deepEqual(ids(await memory.list(agent.id)), [made.id]);
  assert.deepEqual([found.count, found.results[0].content], [1, "Bob likes hiking"]);
  await memory.delete(agent.id, made.id);
  assert.deepEqual(await memory.list(agent.id), []);
  await assert.rejects(memory.delete(agent.id, made.id), GONE);
});

test("legacy: a source and its files come, change and go", async () => {
  const name = unique("source");
  const before = await legacy.sources.count();
  const made = await legacy.sources.create({ name, embedding: EMBEDDING, metadata: { a: [1] } });
  assert.match(made.id, idOf("source"));
  assert.deepEqual(made.metadata, { a: [1] });
  assert.equal(await legacy.sources.count(), before + 1);
  assert.equal(await legacy.sources.retrieveByName(name), made.id);
  assert.deepEqual(await legacy.sources.retrieve(made.id), made);
  const changed = await legacy.sources.modify(made.id, { description: "More" });
  assert.equal(changed.description, "More");
  assert.ok(ids(await legacy.sources.list()).includes(made.id));

  const sent = await legacy.sources.files.upload(textFile("n.txt"), made.id, {});
  const file = await completed(made.id, sent.id);
  assert.deepEqual([file.fileName, file.content], ["n.txt", TEXT]);
  assert.deepEqual(ids(await legacy.sources.files.list(made.id)), [file.id]);
  const [passage] = await legacy.sources.passages.list(made.id);
  assert.deepEqual([passage.text, passage.fileId], [TEXT, file.id]);
  const told = await legacy.sources.getSourcesMetadata({ includeDetailedPerSourceMetadata: true });
  assert.equal(told.sources.find((one) => one.sourceId === made.id).fileCount, 1);

  const agent = await newAgent();
  await legacy.agents.sources.attach(agent.id, made.id);
  assert.deepEqual(await legacy.sources.getAgentsForSource(made.id), [agent.id]);
  assert.deepEqual(ids(await legacy.agents.sources.list(agent.id)), [made.id]);
  await legacy.agents.sources.detach(agent.id, made.id);
  assert.deepEqual(await legacy.agents.sources.list(agent.id), []);

  await legacy.sources.files.delete(made.id, file.id);
  assert.deepEqual(await legacy.sources.files.list(made.id), []);
  await legacy.sources.delete(made.id);
  await assert.rejects(legacy.sources.retrieve(made.id), GONE);
});

test("legacy: a folder, its files and the window into them", async () => {
  const name = unique("folder");
  const before = await legacy.folders.count();
  const made = await legacy.folders.create({ name, embedding: EMBEDDING });
  assert.equal(await legacy.folders.count(), before + 1);
  assert.equal(await legacy.folders.retrieveByName(name), made.id);
  assert.deepEqual(await legacy.folders.retrieve(made.id), made);
  const changed = await legacy.folders.modify(made.id, { description: "More" });
  assert.deepEqual(await legacy.folders.list({ name }), [changed]);

  const sent = await legacy.folders.files.upload(textFile("n.txt"), made.id, {});
  const file = await completed(made.id, sent.id);
  assert.deepEqual(ids(await legacy.folders.files.list(made.id)), [file.id]);
  assert.equal((await legacy.folders.passages.list(made.id))[0].text, TEXT);
  const told = await legacy.folders.retrieveMetadata({ includeDetailedPerSourceMetadata: true });
  assert.equal(told.sources.find((one) => one.sourceId === made.id).fileCount, 1);

  const agent = await newAgent();
  await legacy.agents.folders.attach(agent.id, made.id);
  assert.deepEqual(await legacy.folders.agents.list(made.id), [agent.id]);
  assert.deepEqual(ids(await legacy.agents.folders.list(agent.id)), [made.id]);
  const { files } = await legacy.agents.files.list(agent.id);
  assert.deepEqual(files.map((one) => [one.fileName, one.isOpen]), [[`${name}/n.txt`, true]]);
  await legacy.agents.files.close(agent.id, file.id);
  assert.deepEqual(await legacy.agents.files.open(agent.id, file.id), []);
  assert.deepEqual(await legacy.agents.files.closeAll(agent.id), [`${name}/n.txt`]);
  await legacy.agents.folders.detach(agent.id, made.id);
  assert.deepEqual(await legacy.agents.folders.list(agent.id), []);

  await legacy.folders.files.delete(made.id, file.id);
  assert.deepEqual(await legacy.folders.files.list(made.id), []);
  await legacy.folders.delete(made.id);
  await assert.rejects(legacy.folders.retrieve(made.id), GONE);
});
