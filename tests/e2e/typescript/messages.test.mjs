// Messages from @letta-ai/letta-client: whole, as a stream of steps, and read back.

import assert from "node:assert/strict";
import { test } from "node:test";

import { CALL, DATE, HELLO, all, calm, idOf, kinds, modern, newAgent, says } from "./support.mjs";

const TURN = ["tool_call_message", "tool_return_message", "assistant_message"];
const UNICODE = "Grüße, 世界 🐕";

test("a message is answered with a tool call, its result and a text", async () => {
  const agent = await newAgent();

  const answer = await modern.agents.messages.create(agent.id, { messages: says(CALL) });

  const [call, result, said] = answer.messages;
  assert.deepEqual(kinds(answer.messages), TURN);
  assert.equal(call.tool_call.name, "memory_insert");
  assert.deepEqual(JSON.parse(call.tool_call.arguments), {
    label: "human",
    new_string: "Likes tea",
  });
  assert.deepEqual(call.tool_calls, [call.tool_call]);
  assert.equal(result.tool_call_id, call.tool_call.tool_call_id);
  assert.deepEqual([result.status, result.tool_return], ["success", "Name: Ada\nLikes tea"]);
  assert.equal(said.content, HELLO);
  for (const one of answer.messages) {
    assert.match(one.id, idOf("message"));
    assert.match(one.run_id, idOf("run"));
    assert.match(one.step_id, idOf("step"));
    assert.match(one.date, DATE);
  }
  assert.deepEqual(answer.stop_reason, { message_type: "stop_reason", stop_reason: "end_turn" });
  assert.equal(answer.usage.step_count, 2);
  assert.equal(
    answer.usage.total_tokens,
    answer.usage.prompt_tokens + answer.usage.completion_tokens,
  );
  const block = await modern.agents.blocks.retrieve("human", { agent_id: agent.id });
  assert.equal(block.value, "Name: Ada\nLikes tea");
});

test("input is short for one message of the user", async () => {
  const agent = await newAgent();

  const answer = await modern.agents.messages.create(agent.id, { input: `SAY:${UNICODE}` });

  assert.equal(answer.messages[0].content, UNICODE);
  const history = await all(modern.agents.messages.list(agent.id, { order: "asc" }));
  assert.deepEqual(kinds(history), ["system_message", "user_message", "assistant_message"]);
  assert.equal(history[1].content, `SAY:${UNICODE}`);
});

test("a stream tells the steps and its end, and history has the same", async () => {
  const agent = await newAgent();

  const stream = await modern.agents.messages.stream(agent.id, { messages: says(CALL) });
  const events = calm(await all(stream));

  assert.deepEqual(kinds(events), ["ping", ...TURN, "stop_reason", "usage_statistics"]);
  const told = events.filter((one) => TURN.includes(one.message_type));
  assert.equal(events.at(-2).stop_reason, "end_turn");
  assert.equal(events.at(-1).step_count, 2);
  const history = await all(modern.agents.messages.list(agent.id, { order: "asc" }));
  assert.deepEqual(history.slice(-3), told);
});

test("streaming: true is the same stream", async () => {
  const agent = await newAgent();

  const stream = await modern.agents.messages.create(agent.id, {
    messages: says("Hello"),
    streaming: true,
  });
  const events = calm(await all(stream));

  assert.deepEqual(kinds(events), ["ping", "assistant_message", "stop_reason", "usage_statistics"]);
  assert.equal(events[1].content, HELLO);
});

test("tokens come one by one and add up to history", async () => {
  const agent = await newAgent();
  const text = `The quick brown fox says: ${UNICODE} `.repeat(3).trim();

  const stream = await modern.agents.messages.stream(agent.id, {
    messages: says(`${CALL} SAY:${text}`),
    stream_tokens: true,
  });
  const events = await all(stream);

  const pieces = events.filter((one) => one.message_type === "assistant_message");
  const called = events.filter((one) => one.message_type === "tool_call_message");
  assert.ok(pieces.length > 5);
  assert.equal(pieces.map((one) => one.content).join(""), text);
  const written = called.map((one) => one.tool_call.arguments ?? "").join("");
  assert.deepEqual(JSON.parse(written), { label: "human", new_string: "Likes tea" });
  assert.equal(events.at(-1).message_type, "usage_statistics");
  const history = await all(modern.agents.messages.list(agent.id, { order: "asc" }));
  assert.equal(history.at(-1).content, text);
  assert.deepEqual([...new Set(pieces.map((one) => one.id))], [history.at(-1).id]);
});

test("an async message answers with its run, whose stream can be read", async () => {
  const agent = await newAgent();

  const run = await modern.agents.messages.createAsync(agent.id, {
    messages: says(`SLOW:200 SAY:${UNICODE}`),
  });
  const events = await all(await modern.runs.messages.stream(run.id));

  assert.deepEqual([run.agent_id, run.background], [agent.id, true]);
  const said = events.filter((one) => one.message_type === "assistant_message");
  assert.equal(said.map((one) => one.content).join(""), UNICODE);
  assert.equal((await modern.runs.retrieve(run.id)).status, "completed");
});

test("a run is cancelled in mid-sentence, and the conversation goes on", async () => {
  const agent = await newAgent();
  const stream = await modern.agents.messages.stream(agent.id, {
    messages: says(`DRIP:300 SAY:${"A long answer. ".repeat(40)}`),
    stream_tokens: true,
  });
  const events = [];
  let outcome = null;
  for await (const event of stream) {
    events.push(event);
    if (outcome === null && event.message_type === "assistant_message") {
      outcome = await modern.agents.messages.cancel(agent.id);
    }
  }

  const run = events[0].run_id;
  assert.deepEqual(outcome, { [run]: "cancelled" });
  assert.deepEqual(events.at(-1), { message_type: "stop_reason", stop_reason: "cancelled" });
  assert.equal((await modern.runs.retrieve(run)).status, "cancelled");
  const answer = await modern.agents.messages.create(agent.id, { messages: says("Hello") });
  assert.equal(answer.messages[0].content, HELLO);
});

test("a stream whose model fails ends with an error", async () => {
  const agent = await newAgent();

  const stream = await modern.agents.messages.stream(agent.id, { messages: says("FAIL:401") });

  await assert.rejects(all(stream), (problem) => {
    assert.equal(problem.error.error_type, "llm_authentication");
    assert.match(problem.message, /Incorrect API key/);
    return true;
  });
  assert.equal((await modern.agents.retrieve(agent.id)).last_stop_reason, "llm_api_error");
});

test("history is paged from either end", async () => {
  const agent = await newAgent();
  for (const text of ["one", "two", "three"]) {
    await modern.agents.messages.create(agent.id, { messages: says(`SAY:${text}`) });
  }

  const forwards = await all(modern.agents.messages.list(agent.id, { limit: 2, order: "asc" }));
  // A page is oldest first whatever the order, so the way back is by `before`.
  const backwards = await all(
    modern.agents.messages.list(agent.id, { limit: 2, before: forwards.at(-1).id }),
  );
  const page = await modern.agents.messages.list(agent.id, {
    limit: 2,
    order: "asc",
    after: forwards[2].id,
  });

  assert.deepEqual(forwards.map((one) => one.content).slice(1), [
    "SAY:one",
    "one",
    "SAY:two",
    "two",
    "SAY:three",
    "three",
  ]);
  const ids = forwards.map((one) => one.id);
  assert.deepEqual(
    backwards.map((one) => one.id),
    [...ids.slice(4, 6), ...ids.slice(2, 4), ...ids.slice(0, 2)],
  );
  assert.deepEqual(
    page.items.map((one) => one.id),
    ids.slice(3, 5),
  );
});

test("messages are found by their words and by what they mean", async () => {
  const agent = await newAgent();
  const fact = "A ginger cat sleeps on the sofa of Omar every afternoon.";
  for (const text of ["The rent is 900 euros.", fact])
    await modern.agents.messages.create(agent.id, { messages: says(text) });
  const search = (fields) =>
    modern.messages.search({ agent_id: agent.id, limit: 1, ...fields });

  const [byWords] = await search({ query: "ginger sofa", search_mode: "fts" });
  const [byMeaning] = await search({ query: "Which pet naps on the couch?", search_mode: "vector" });

  assert.deepEqual([byWords.content, byWords.agent_id], [fact, agent.id]);
  assert.deepEqual(byMeaning, byWords);
  assert.deepEqual(await search({ query: "Nothing has zzyzx", search_mode: "fts" }), []);
});
