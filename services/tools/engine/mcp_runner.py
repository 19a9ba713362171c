"""Call the tools of MCP servers: the registry's name of a tool leads to a server and its name
there."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.tools import ToolState
from libs.contracts.shortened_text import cut
from libs.contracts.tools.tool_runs import RunTool, ToolRunResult
from libs.eventstore.ports import StoreUnavailable
from services.tools.adapters.mcp.ports import McpFailed, McpOutcome
from services.tools.domain.mcp_server import McpServer, McpServerState
from services.tools.domain.mcp_tool import MCP
from services.tools.engine.mcp_discoveries import McpDiscoveries, config_of
from services.tools.engine.mcp_sampling import CallSampling, McpSampling

EMPTY = "Empty response from tool"  # as V1 says it


class McpRunner:
    """Keeps the contract of `ToolRunner` for the tools of MCP servers."""

    def __init__(self, discoveries: McpDiscoveries, sampling: McpSampling) -> None:
        self.ports = discoveries.ports
        self.discoveries = discoveries
        self.sampling = sampling

    def refusal_of(self, tool: ToolState, command: RunTool) -> str:
        """Why a call cannot be carried out: it is no tool that a server brought."""
        server_id, tool_name = origin_of(tool)
        if server_id and tool_name:
            return ""
        return f"'{tool.name}' names no MCP server that has it: refresh its server's tools"

    async def run(self, tool: ToolState, command: RunTool, org: str) -> ToolRunResult:
        """The result of a call, in the words that the model reads."""
        since = self.ports.clock.monotonic()
        sampling = self.sampling.of(command, org)
        try:
            async with asyncio.timeout(command.seconds_max):
                outcome = await self.outcome(tool, command, org, sampling)
        except TimeoutError:
            status, text = "timeout", timed_out(tool.name, command.seconds_max)
        except McpFailed as failure:
            status = "timeout" if failure.kind == "timeout" else "error"
            text = failure_text(tool.name, failure)
        else:
            status, text = outcome.status, outcome.text or EMPTY
        return ToolRunResult.model_validate(
            {
                "status": status,
                "text": cut(text, tool.return_char_limit),
                "seconds": self.ports.clock.monotonic() - since,
                "sampling": sampling.usage if sampling.usage.requests else None,
            }
        )

    async def outcome(
        self, tool: ToolState, command: RunTool, org: str, sampling: CallSampling
    ) -> McpOutcome:
        """A server's answer to a call. Raises McpFailed."""
        server_id, tool_name = origin_of(tool)
        state = await self.server(server_id, org)
        if state is None:
            raise McpFailed("refused", "its MCP server is gone")
        if why := not_accepted(state, server_id, tool_name):
            raise McpFailed("refused", why)
        config = config_of(self.ports.sealer, server_id, org, state)
        if config.sampling:
            config = replace(config, agent_id=command.agent_id)
        connections = self.ports.sessions.connections_for(config)
        if refused := connections.refusal_of(config):
            raise McpFailed("refused", refused)
        outcome = await connections.call_tool(
            config,
            tool_name,
            command.arguments,
            seconds=command.seconds_max,
            sampler=sampling.answer if config.sampling else None,
        )
        if state.status == "failed":
            await self.discoveries.server_answers(server_id, org)
        return outcome

    async def server(self, server_id: str, org: str) -> McpServerState | None:
        """A server as of now, and None for one that is gone. Raises McpFailed where the store is
        away."""
        repository = self.ports.repository
        try:
            server = await repository.load(McpServer, server_id, org=org)
        except StoreUnavailable:
            raise McpFailed("unreachable", "the server's database is away") from None
        if server.org == org:
            repository.keep(server)
        return server.present


def origin_of(tool: ToolState) -> tuple[str, str]:
    """The server that a tool is of, and what it is called there; empty where it is of none."""
    about = (tool.metadata_ or {}).get(MCP)
    said: JsonObject = {**about} if isinstance(about, dict) else {}
    return str(said.get("server_id") or ""), str(said.get("tool_name") or "")


def not_accepted(state: McpServerState, server_id: str, tool_name: str) -> str:
    """Why a tool is not called although its server has it; empty if it is."""
    known = state.tools.get(tool_name)
    if known is None:
        return f"the MCP server '{state.name}' does not offer it any more"
    if known.pending is None:
        return ""
    if known.pending.problem:
        return f"the MCP server '{state.name}' defines it so that it is unusable now: " + (
            known.pending.problem
        )
    return (
        f"the MCP server '{state.name}' has changed its definition, and nobody has accepted that"
        f" yet. A person does so by PATCH /v1/mcp-servers/{server_id}/refresh?accept={tool_name}"
    )


def timed_out(name: str, seconds: float) -> str:
    """The text to a model about a call that took too long."""
    return (
        f"'{name}' took longer than {seconds:g} seconds and was given up. It may have taken effect:"
        " check before you call it again."
    )


def failure_text(name: str, failure: McpFailed) -> str:
    """The text with which a model is told that a call failed."""
    effect = " It may have taken effect." if failure.may_have_taken_effect else ""
    return f"Error executing tool {name}: {failure.words}.{effect}".replace("..", ".")
