// What all TypeScript tests share: the two clients as people install them, and how they ask.

import { randomUUID } from "node:crypto";

import Letta from "@letta-ai/letta-client";
import { LettaClient } from "letta-legacy";

export const MODEL = "openai/gpt-4o-mini";
export const EMBEDDING = "openai/text-embedding-3-small";
export const HELLO = "Hello from the scripted model.";
export const NOBODY = "00000000-0000-4000-8000-000000000000";
export const DEFAULT_TOOLS = ["conversation_search", "memory_insert", "memory_replace"];
export const DATE = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)$/;
// The model does what the last user message says: here, to call this tool and then to greet.
export const CALL = 'CALL:memory_insert:{"label":"human","new_string":"Likes tea"}';

const address = process.env.HEELER_TEST_URL;
if (!address)
  throw new Error("HEELER_TEST_URL is not set: run pytest tests/e2e/test_typescript.py");
export const baseUrl = address;

export const modern = new Letta({ baseURL: baseUrl, apiKey: "none", maxRetries: 0 });
export const legacy = new LettaClient({ baseUrl, token: "none" });

/** A name that no other test has. */
export const unique = (word) => `${word}-${randomUUID().slice(0, 12)}`;

/** One message of the user. */
export const says = (text) => [{ role: "user", content: text }];

/** An id of this kind. */
export const idOf = (kind) => new RegExp(`^${kind}-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`);

/** An agent on the scripted model with a `human` and a `persona` block. */
export const newAgent = (fields = {}) =>
  modern.agents.create({
    name: unique("agent"),
    model: MODEL,
    embedding: EMBEDDING,
    memory_blocks: [
      { label: "human", value: "Name: Ada" },
      { label: "persona", value: "I am kind." },
    ],
    ...fields,
  });

/** Everything that an asynchronous iterable yields. */
export const all = async (iterable) => {
  const found = [];
  for await (const one of iterable) found.push(one);
  return found;
};

/** What each event of a stream or message of a list is, in the words of the wire. */
export const kinds = (messages) => messages.map((one) => one.message_type ?? one.messageType);

/** The same without the pings that a slow machine adds after the first. */
export const calm = (events) =>
  events.filter((one, index) => index === 0 || kinds([one])[0] !== "ping");
