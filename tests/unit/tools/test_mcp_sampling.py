"""TOOL-14: what MCP servers may ask the model of the agent that calls their tool."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pydantic_core import to_json

from libs.bus.in_memory import InMemoryBus
from libs.bus.ports import IncomingCommand
from libs.contracts.agent.one_off_completions import SampleModel, sampling_deltas
from libs.contracts.bus_messages import BUSY, NOT_FOUND, Accepted, JsonObject, Rejected
from libs.contracts.tools.mcp_servers import CreateMcpServer
from libs.work import progress
from services.tools.adapters.mcp.ports import (
    McpOutcome,
    McpTool,
    Sampler,
    SamplingAnswer,
    SamplingMessage,
    SamplingRefused,
    SamplingRequest,
)
from services.tools.engine.mcp_sampling import REQUESTS_MAX
from tests.unit.tools.mcp_world import (
    OBJECT,
    ORG,
    SERVER,
    TOKENS_MAX,
    URL,
    McpProcess,
    McpWorld,
    config,
)

AGENT = "agent-1"
HELLO = SamplingRequest(
    messages=(SamplingMessage(role="user", content="Hi"),), max_tokens=TOKENS_MAX * 2
)
SAID: JsonObject = {
    "completion": {
        "content": "Hello.",
        "model": "gpt-4o",
        "usage": {"prompt_tokens": 7, "completion_tokens": 2},
        "stop_reason": "endTurn",
    }
}
BUSY_NOW = Rejected(code=BUSY, reason="no room")


class AgentService:
    """Takes questions, and answers each as it is told: by a refusal, or by what it tells."""

    def __init__(self, world: McpWorld, *answers: Rejected | JsonObject) -> None:
        self.bus = InMemoryBus(world.network)
        self.answers = [*answers]
        self.asked: list[SampleModel] = []

    async def serve(self) -> None:
        await self.bus.serve("agent", self.answer)

    async def answer(self, command: IncomingCommand) -> Accepted | Rejected:
        self.asked.append(SampleModel.model_validate_json(command.payload))
        answer = self.answers.pop(0)
        if isinstance(answer, Rejected):
            return answer
        subject = sampling_deltas(ORG, self.asked[-1].completion_id)
        for told in ({}, answer) if answer else ({},):
            asyncio.get_running_loop().call_soon(
                lambda told=told: asyncio.ensure_future(
                    self.bus.publish_delta(subject, to_json(told))
                )
            )
        return Accepted()


type Ask = Callable[[Sampler], Awaitable[str]]


async def called(
    world: McpWorld,
    ask: Ask,
    *answers: Rejected | JsonObject,
    sampling: bool = True,
    agent_id: str = AGENT,
) -> tuple[dict[str, Any], AgentService]:
    """The result of a call in whose course the server asks; and whom it asked."""
    agents = AgentService(world, *answers)
    await agents.serve()
    server = world.connections.at(URL)
    server.tools = [McpTool(name="guess", input_schema=OBJECT)]

    async def samples(sampler: Sampler) -> McpOutcome:
        return McpOutcome(status="success", text=await ask(sampler))

    server.samples = samples
    process = McpProcess(world)
    await process.done(
        CreateMcpServer(server_id=SERVER, name="weather", config=config(world, sampling=sampling))
    )
    tool_id = world.tools()["guess"]["id"]
    return await process.call(tool_id, agent_id=agent_id), agents


async def one(sampler: Sampler) -> str:
    """What a server says that asks once, and says what it was told."""
    try:
        answer = await sampler(HELLO)
    except SamplingRefused as refused:
        return f"{refused.outcome}: {refused.words}"
    return f"{answer.text} ({answer.model}, {answer.stop_reason})"


def recorded(world: McpWorld) -> list[dict[str, Any]]:
    """The questions that are recorded as a part of calls."""
    return [
        event.payload
        for stream in world.schema.streams.values()
        for event in stream
        if event.topic == "tool_run.sampled"
    ]


async def test_the_model_of_the_agent_answers_and_it_is_recorded_with_its_tokens() -> None:
    world = McpWorld()
    result, agents = await called(world, one, SAID)
    assert result["text"] == "Hello. (gpt-4o, endTurn)"
    assert result["sampling"] == {"requests": 1, "prompt_tokens": 7, "completion_tokens": 2}
    [question] = agents.asked
    assert (question.agent_id, question.max_tokens) == (AGENT, TOKENS_MAX)
    assert question.messages[0].content == "Hi"
    [event] = recorded(world)
    assert (event["outcome"], event["model"]) == ("answered", "gpt-4o")
    assert (event["prompt_tokens"], event["completion_tokens"]) == (7, 2)
    assert world.connections.configs[-1].agent_id == AGENT


async def test_a_server_that_may_not_ask_has_nobody_to_ask() -> None:
    world = McpWorld()
    result, agents = await called(world, one, SAID, sampling=False)
    assert (result["text"], agents.asked) == ("guess({})", [])
    assert "sampling" not in result
    assert world.connections.configs[-1].agent_id == "", "one session for all"


async def test_without_an_agent_there_is_no_model() -> None:
    result, agents = await called(McpWorld(), one, SAID, agent_id="")
    assert (result["text"].startswith("no_agent"), agents.asked) == (True, [])


async def test_a_model_is_asked_a_few_times_in_a_call_and_no_more() -> None:
    world = McpWorld()

    async def often(sampler: Sampler) -> str:
        return "\n".join([await one(sampler) for _ in range(REQUESTS_MAX + 2)])

    result, agents = await called(world, often, *[SAID] * REQUESTS_MAX)
    lines = result["text"].splitlines()
    assert len(agents.asked) == REQUESTS_MAX == len(recorded(world))
    assert [line.startswith("too_many") for line in lines[-3:]] == [False, True, True]
    assert result["sampling"]["requests"] == REQUESTS_MAX


async def test_why_there_is_no_answer_is_for_the_operator_and_not_for_the_server() -> None:
    world = McpWorld()
    secret = "Incorrect key sk-123 of account Acme"
    problem: JsonObject = {
        "problem": {"error_type": "llm_authentication", "message": secret, "detail": None}
    }
    result, _ = await called(world, one, problem)
    assert "llm_authentication" in result["text"]
    assert "sk-123" not in result["text"]
    [event] = recorded(world)
    assert (event["outcome"], event["reason"]) == ("failed", secret)


async def test_an_agent_that_is_gone_has_no_model() -> None:
    world = McpWorld()
    gone = Rejected(code=NOT_FOUND, reason="Agent agent-1 not found")
    result, _ = await called(world, one, gone)
    assert result["text"].startswith("failed: The model of the agent cannot be asked")
    assert recorded(world)[0]["reason"] == gone.reason


async def test_an_agent_service_that_dies_costs_the_answer_and_not_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = McpWorld()
    monkeypatch.setattr(progress, "GIVE_UP_SECONDS", 0.05)
    result, _ = await called(world, one, {})
    assert (result["status"], result["text"].startswith("failed: The server")) == ("success", True)
    assert recorded(world)[0]["outcome"] == "failed"


async def test_a_question_waits_until_there_is_room_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = McpWorld()

    pauses: list[float] = []

    async def no_time(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)  # others have their turn

    monkeypatch.setattr(world.clock, "sleep", no_time)
    busy: JsonObject = {"problem": {"message": "no room", "busy": True}}
    result, agents = await called(world, one, BUSY_NOW, busy, *[BUSY_NOW] * 4, SAID)
    assert result["text"].startswith("Hello.")
    assert len({question.completion_id for question in agents.asked}) == 7
    # Without the third, of 2 s: as long are those between the signs of life of the call itself.
    assert [pause for pause in pauses if pause != 2.0] == [0.5, 1.0, 4.0, 4.0, 4.0]
    assert len(recorded(world)) == 1, "the one that was taken"


async def test_an_answer_is_what_the_port_says() -> None:
    answers: list[SamplingAnswer] = []

    async def keep(sampler: Sampler) -> str:
        answers.append(await sampler(HELLO))
        return "kept"

    await called(McpWorld(), keep, SAID)
    assert answers == [SamplingAnswer(text="Hello.", model="gpt-4o", stop_reason="endTurn")]
