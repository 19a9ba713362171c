// MCP servers from @letta-ai/letta-client: added, their tools listed, called by an agent, deleted.

import assert from "node:assert/strict";
import { test } from "node:test";

import { NotFoundError } from "@letta-ai/letta-client";

import { all, idOf, modern, newAgent, says, unique } from "./support.mjs";

// Server-everything of the protocol's authors, over each transport.
const configs = JSON.parse(process.env.HEELER_TEST_MCP_CONFIGS);

test("an agent calls the tool of an MCP server", async () => {
  for (const config of configs) {
    const server = await modern.mcpServers.create({ server_name: unique("server"), config });
    assert.match(server.id, idOf("mcp_server"));
    const tools = await all(await modern.mcpServers.tools.list(server.id));
    const echo = tools.find((one) => one.metadata_.mcp.tool_name === "echo");

    const ran = await modern.mcpServers.tools.run(echo.id, {
      mcp_server_id: server.id,
      args: { message: "Hello" },
    });
    assert.deepEqual([ran.status, ran.func_return], ["success", "Echo: Hello"]);

    const agent = await newAgent({ tool_ids: [echo.id] });
    const call = `CALL:${echo.name}:${JSON.stringify({ message: "Hello" })}`;
    const answer = await modern.agents.messages.create(agent.id, { messages: says(call) });
    const returned = answer.messages.find((one) => one.message_type === "tool_return_message");
    assert.deepEqual([returned.status, returned.tool_return], ["success", "Echo: Hello"]);

    await modern.mcpServers.delete(server.id);
    await assert.rejects(() => modern.mcpServers.retrieve(server.id), NotFoundError);
  }
});
