// `node resume.mjs modern|legacy`: a background run whose stream is cut every two seconds, and
// resumed after the last event that came, also when the server was away. Says "cut" each time, and
// at the end what it was told and what the server keeps, as JSON.

import { LettaError } from "@letta-ai/letta-client";

import { EMBEDDING, MODEL, all, legacy, modern, says, unique } from "./support.mjs";

const CUT_MS = 2_000;
const AGAIN_MS = 100; // while nobody listens
const TEXT = "Grüße aus Köln, 世界 🐕! ".repeat(36).trim();
const ASKED = says(`DRIP:100 SAY:${TEXT}`);

const clients = {
  modern: {
    begin: (agent, signal) =>
      modern.agents.messages.stream(
        agent,
        { messages: ASKED, stream_tokens: true, background: true },
        { signal },
      ),
    resume: (run, after, signal) =>
      modern.runs.messages.stream(run, { starting_after: after }, { signal }),
    history: (agent) => all(modern.agents.messages.list(agent, { order: "asc" })),
  },
  legacy: {
    begin: (agent, abortSignal) =>
      legacy.agents.messages.createStream(
        agent,
        { messages: ASKED, streamTokens: true, background: true },
        { abortSignal, maxRetries: 0 },
      ),
    resume: (run, startingAfter, abortSignal) =>
      legacy.runs.stream(run, { startingAfter }, { abortSignal, maxRetries: 0 }),
    history: (agent) => legacy.agents.messages.list(agent),
  },
};

/** An event in the words of the wire, whichever client read it. */
const plain = (event) => ({
  kind: event.message_type ?? event.messageType,
  id: event.id,
  run: event.run_id ?? event.runId,
  number: event.seq_id ?? event.seqId,
  content: event.content,
});

/** Whether the stream broke off or nobody listened, which is what this is about. */
const isCut = (problem, signal) =>
  signal.aborted ||
  problem instanceof TypeError || // what fetch throws when a connection ends
  problem.name === "AbortError" ||
  ["ECONNREFUSED", "ECONNRESET", "ERR_STREAM_PREMATURE_CLOSE"].includes(problem.code) ||
  (problem instanceof LettaError && problem.status === undefined) ||
  (problem.constructor.name === "LettaError" && problem.statusCode === undefined);

/** What one client is told of one run, in as many streams as it takes. */
class Told {
  run = null;
  numbers = [];
  texts = new Map(); // by message: the step of a process that died is told again as another one
  ended = false;

  get last() {
    return this.numbers.at(-1) ?? 0;
  }

  take(event) {
    this.run ??= event.run;
    if (event.kind === "usage_statistics") this.ended = true;
    if (event.kind === "ping" || event.number == null) return;
    this.numbers.push(event.number);
    if (event.kind !== "assistant_message") return;
    this.texts.set(event.id, (this.texts.get(event.id) ?? "") + event.content);
  }

  async read(client, agent) {
    const cutter = new AbortController();
    const timer = setTimeout(() => {
      console.log("cut");
      cutter.abort();
    }, CUT_MS);
    try {
      const opened = this.run
        ? client.resume(this.run, this.last, cutter.signal)
        : client.begin(agent, cutter.signal);
      for await (const event of await opened) this.take(plain(event));
    } catch (problem) {
      if (!isCut(problem, cutter.signal)) throw problem;
    } finally {
      clearTimeout(timer);
    }
  }
}

const client = clients[process.argv[2]];
const agent = await modern.agents.create({
  name: unique("resumed"),
  model: MODEL,
  embedding: EMBEDDING,
});
const told = new Told();
while (!told.ended) {
  await told.read(client, agent.id);
  await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
}
const kept = (await client.history(agent.id)).at(-1);
console.log(
  JSON.stringify({
    asked: TEXT,
    told: told.texts.get(kept.id),
    kept: kept.content,
    numbers: told.numbers,
  }),
);
process.exit(0); // the legacy client leaves a timer of a minute behind
