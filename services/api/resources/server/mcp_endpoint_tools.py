"""Tools for other programs over MCP: a choice of operations on agents, their memory and their
messages, each a request to the api itself, shown in the few words that a model needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from libs.bus.ports import Clock
from libs.contracts.bus_messages import JsonObject
from services.api.adapters.server.mcp_endpoint_protocol import OfferedTool, ToolFailed
from services.api.http.internal_requests import InternalRequests, RequestRefused

WAIT_SECONDS_MAX = 300.0
# A run is looked at again after a part of the time that it has taken: many who wait long cost
# little.
POLL_PART_OF_WAIT = 0.2
POLL_SECONDS_MIN = 0.05
POLL_SECONDS_MAX = 5.0
SHOWN_WITH_AGENT = ("agent.tags", "agent.blocks", "agent.tools")
RUNNING = ("created", "running")

type AgentId = Annotated[str, Field(description="The id of the agent: agent-...")]
type Limit = Annotated[int, Field(ge=1, le=100, description="How many at most.")]
type WaitSeconds = Annotated[
    float,
    Field(
        ge=0,
        le=WAIT_SECONDS_MAX,
        description="How long to wait for the end of the run; it goes on without you after that.",
    ),
]


class McpClient:
    """A client of the MCP endpoint: what its tools do is asked of the api in its name."""

    def __init__(self, requests: InternalRequests, clock: Clock) -> None:
        self.requests = requests
        self.clock = clock


class Arguments(BaseModel):
    """The arguments of a tool; others are refused."""

    model_config = ConfigDict(extra="forbid")


class ListAgents(Arguments):
    name: str | None = Field(None, description="Only agents of exactly this name.")
    tags: list[str] | None = Field(None, description="Only agents with one of these tags.")
    limit: Limit = 20
    after: str | None = Field(None, description="The `next_after` of the page before.")


class OneAgent(Arguments):
    agent_id: AgentId


class NewBlock(Arguments):
    label: str = Field(description="The name of the block, such as human or persona.")
    value: str = Field(description="Its text.")
    description: str | None = Field(None, description="What the agent should keep in it.")


class CreateAgent(Arguments):
    name: str
    model: str | None = Field(None, description="The handle of the model, as provider/model.")
    description: str | None = None
    system: str | None = Field(None, description="The system prompt; the usual one if left out.")
    memory_blocks: list[NewBlock] = Field(default_factory=list)
    tags: list[str] = Field(default_factory=list)


class SendMessage(Arguments):
    agent_id: AgentId
    message: str = Field(min_length=1, description="What the agent is told, as by a user.")
    wait_seconds: WaitSeconds = 60.0


class OneRun(Arguments):
    run_id: str = Field(description="The id of the run: run-...")
    wait_seconds: WaitSeconds = 0.0


class ListMessages(Arguments):
    agent_id: AgentId
    limit: Limit = 20
    before: str | None = Field(None, description="Only messages before the one of this id.")


class OneBlock(Arguments):
    agent_id: AgentId
    label: str = Field(description="The label of the memory block.")


class UpdateBlock(OneBlock):
    value: str = Field(description="The new text, which replaces all of the old.")


class SearchMessages(Arguments):
    query: str = Field(min_length=1, description="Words that must all be in a message.")
    agent_id: Annotated[str | None, Field(description="Only messages of this agent.")] = None
    limit: Limit = 20


async def list_agents(client: McpClient, asked: ListAgents) -> JsonObject:
    """List agents, the newest first."""
    found = await client.requests.get("/v1/agents", **asked.model_dump(), include="agent.tags")
    return {
        "agents": [agent_shown(agent) for agent in found],
        "next_after": found[-1]["id"] if len(found) == asked.limit else None,
    }


async def get_agent(client: McpClient, asked: OneAgent) -> JsonObject:
    """Show an agent: its model, its tools and its memory."""
    path = f"/v1/agents/{segment(asked.agent_id)}"
    agent = await client.requests.get(path, include=SHOWN_WITH_AGENT)
    memory = [block_shown(block) for block in agent["memory"]["blocks"]]
    tools = [tool["name"] for tool in agent["tools"]]
    return {**agent_shown(agent), "system": agent["system"], "tools": tools, "memory": memory}


async def create_agent(client: McpClient, asked: CreateAgent) -> JsonObject:
    """Create an agent with memory blocks."""
    return agent_shown(await client.requests.post("/v1/agents", asked.model_dump()))


async def send_message(client: McpClient, asked: SendMessage) -> JsonObject:
    """Send a message to an agent, and wait for its reply.

    If it takes longer than wait_seconds, the id of the run is the answer: ask get_run for its end.
    A message that was sent is never taken back: do not send it again because of a time-out."""
    run = await client.requests.post(
        f"/v1/agents/{segment(asked.agent_id)}/messages/async",
        {"messages": [{"role": "user", "content": asked.message}]},
    )
    return await run_shown(client, run, asked.wait_seconds)


async def get_run(client: McpClient, asked: OneRun) -> JsonObject:
    """Show how far the answer to a message is, and the reply once it is there."""
    run = await client.requests.get(f"/v1/runs/{segment(asked.run_id)}")
    return await run_shown(client, run, asked.wait_seconds)


async def list_messages(client: McpClient, asked: ListMessages) -> JsonObject:
    """List what was said to and by an agent, the newest first."""
    found = await client.requests.get(
        f"/v1/agents/{segment(asked.agent_id)}/messages",
        limit=asked.limit,
        before=asked.before,
        order="desc",
    )
    return {"messages": [message_shown(message) for message in found]}


async def list_memory(client: McpClient, asked: OneAgent) -> JsonObject:
    """List the memory blocks of an agent with their texts."""
    path = f"/v1/agents/{segment(asked.agent_id)}/core-memory/blocks"
    return {"memory": [block_shown(block) for block in await client.requests.get(path)]}


async def read_memory(client: McpClient, asked: OneBlock) -> JsonObject:
    """Read one memory block of an agent."""
    return block_shown(await client.requests.get(block_path(asked)))


async def update_memory(client: McpClient, asked: UpdateBlock) -> JsonObject:
    """Replace the text of a memory block of an agent."""
    return block_shown(await client.requests.patch(block_path(asked), {"value": asked.value}))


async def search_messages(client: McpClient, asked: SearchMessages) -> JsonObject:
    """Find messages by their words, of all agents or of one."""
    found = await client.requests.post("/v1/messages/search", asked.model_dump())
    return {"messages": [message_shown(message) for message in found]}


async def run_shown(client: McpClient, run: Any, wait_seconds: float) -> JsonObject:
    """A run, after as much of a wait for its end as is given."""
    path = f"/v1/runs/{segment(run['id'])}"
    since = client.clock.monotonic()
    while run["status"] in RUNNING:
        waited = client.clock.monotonic() - since
        if waited >= wait_seconds:
            break
        pause = min(max(waited * POLL_PART_OF_WAIT, POLL_SECONDS_MIN), POLL_SECONDS_MAX)
        await client.clock.sleep(min(pause, wait_seconds - waited))
        run = await client.requests.get(path)
    shown: JsonObject = {
        "run_id": run["id"],
        "agent_id": run["agent_id"],
        "status": run["status"],
        "stop_reason": run["stop_reason"],
    }
    if run["status"] in RUNNING:
        return shown
    said = await client.requests.get(f"{path}/messages", order="asc")
    replies = [
        message["content"] for message in said if message["message_type"] == "assistant_message"
    ]
    return {**shown, "reply": "\n\n".join(text_of(reply) for reply in replies)}


def agent_shown(agent: Any) -> JsonObject:
    """The fields that set an agent apart from others."""
    fields = ("id", "name", "description", "agent_type", "model", "tags", "created_at")
    return {name: agent.get(name) for name in fields}


def block_shown(block: Any) -> JsonObject:
    """The fields of a block that a model is shown."""
    fields = ("label", "value", "description", "limit", "read_only", "id")
    return {name: block.get(name) for name in fields}


def message_shown(message: Any) -> JsonObject:
    """A message, in whichever of V1's shapes."""
    kept = ("content", "reasoning", "tool_call", "tool_return", "summary", "agent_id")
    return {
        "id": message.get("id") or message.get("message_id"),
        "date": message.get("date") or message.get("created_at"),
        "type": message.get("message_type"),
        **{name: message[name] for name in kept if message.get(name) is not None},
    }


def text_of(content: Any) -> str:
    """The text of a message's content."""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


def block_path(asked: OneBlock) -> str:
    """Where a memory block is."""
    agent_id, label = segment(asked.agent_id), segment(asked.label)
    return f"/v1/agents/{agent_id}/core-memory/blocks/{label}"


def segment(text: str) -> str:
    """A text as one segment of a path, whatever is in it."""
    return quote(text, safe="")


def offer[A: Arguments](
    arguments: type[A], call: Callable[[McpClient, A], Awaitable[JsonObject]], **hints: bool
) -> OfferedTool[McpClient]:
    """A tool of the function's name; what it says of itself is its docstring."""

    async def checked(client: McpClient, given: JsonObject) -> JsonObject:
        try:
            return await call(client, arguments.model_validate(given))
        except ValidationError as invalid:
            raise ToolFailed(problems(invalid)) from None
        except RequestRefused as refused:
            raise ToolFailed(str(refused)) from None

    return OfferedTool(
        name=call.__name__,
        description=" ".join((call.__doc__ or "").split()),
        input_schema=arguments.model_json_schema(),
        call=checked,
        **hints,
    )


def problems(invalid: ValidationError) -> str:
    """The problems of arguments, field by field."""
    said = (
        f"`{'.'.join(map(str, error['loc']))}`: {error['msg']}"
        for error in invalid.errors(include_input=False)
    )
    return "; ".join(said)


TOOLS: tuple[OfferedTool[McpClient], ...] = (
    offer(ListAgents, list_agents, reads_only=True),
    offer(OneAgent, get_agent, reads_only=True),
    offer(CreateAgent, create_agent),
    offer(SendMessage, send_message),
    offer(OneRun, get_run, reads_only=True),
    offer(ListMessages, list_messages, reads_only=True),
    offer(OneAgent, list_memory, reads_only=True),
    offer(OneBlock, read_memory, reads_only=True),
    offer(UpdateBlock, update_memory, idempotent=True, destructive=True),
    offer(SearchMessages, search_messages, reads_only=True),
)
