"""All services in one process: the same answers, the same recovery, one thing to restart.

The whole suite runs in this mode by `HEELER_PROCESSES=one pytest tests/e2e`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import nats
import pytest
from letta_client import AsyncLetta, Letta

from deploy.embedded.settings import SERVICES
from libs.bus.clock_and_ids import RandomIds
from libs.bus.nats_bus import NatsBus
from libs.contracts.bus_messages import Accepted, Context
from libs.contracts.memory.blocks import UpdateBlock
from libs.contracts.per_service_commands import CHECK
from libs.contracts.service_registry import SHARED_CONNECTIONS_MAX
from tests.e2e.asking import (
    HELLO,
    MODEL,
    SDK_HEADERS,
    SECONDS_MAX,
    SEND,
    STREAM,
    kinds,
    says,
    stream,
    tool_return,
    unique,
)
from tests.mcp_servers.changing import ChangingServer, changing_server
from tests.scripted_model import ScriptedModelProcess
from tests.servers import HeelerInstance
from tests.waiting import wait_for

CALL = 'CALL:memory_insert:{"label":"human","new_string":"Likes tea"}'
AT_ONCE = 24
DYING = 6
HUMAN = [{"label": "human", "value": "Name: Ada"}]


@pytest.fixture(scope="module")
def weather() -> Iterator[ChangingServer]:
    with changing_server() as server:
        server.token = "t0ken"
        yield server


@pytest.fixture(scope="module")
def small(
    model: ScriptedModelProcess, weather: ChangingServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HeelerInstance]:
    declared = tmp_path_factory.mktemp("mcp") / "servers.toml"
    declared.write_text(f'[servers.weather]\nurl = "{weather.url}"\nauth_token = "t0ken"\n')
    env = {
        "HEELER_PROCESSES": "one",
        "HEELER_MCP_CONFIG": str(declared),
        "HEELER_MCP_HOSTS": "127.0.0.1",
        "OPENAI_API_BASE": model.base_url,
        "OPENAI_API_KEY": "any",
    }
    with HeelerInstance(env=env) as instance:
        yield instance


@pytest.fixture
async def client(small: HeelerInstance) -> AsyncIterator[AsyncLetta]:
    """The SDK with its own retries: it must outlast a restart."""
    async with AsyncLetta(
        base_url=small.base_url, api_key="none", max_retries=10, timeout=SECONDS_MAX
    ) as letta:
        yield letta


async def new_agent(client: AsyncLetta) -> str:
    name = unique("small")
    return (await client.agents.create(name=name, model=MODEL, memory_blocks=HUMAN)).id


def test_one_process_is_all_services(small: HeelerInstance) -> None:
    status = small.status()

    assert status["healthy"] is True
    assert list(status["parts"]) == ["supervisor", "postgres", "nats", "services"]
    assert status["parts"]["services"]["state"] == "ok"
    assert len({small.pid(name) for name in SERVICES}) == 1


async def test_a_server_that_its_configuration_declares_is_there_and_called(
    client: AsyncLetta, weather: ChangingServer
) -> None:
    """TOOL-06: MCP servers in a file."""

    async def declared() -> Any:
        return [
            server for server in await client.mcp_servers.list() if server.server_name == "weather"
        ]

    [server] = await wait_for("the declared server", declared)
    tools = await client.mcp_servers.tools.list(server.id)
    assert {tool.name for tool in tools} == {"forecast", "alerts"}
    agent = await client.agents.create(
        name=unique("small"), model=MODEL, tool_ids=[tool.id for tool in tools]
    )
    text = 'CALL:forecast:{"city": "Paris"}'
    answer = await client.agents.messages.create(agent.id, messages=says(text))
    result = tool_return(answer.messages)
    assert result.tool_return == "forecast: sun over Paris"


@SEND
async def test_a_turn_with_a_tool_call_goes_as_in_three_processes(client: AsyncLetta) -> None:
    agent = await new_agent(client)

    answer = await client.agents.messages.create(agent, messages=says(CALL))

    told = [message.message_type for message in answer.messages]
    assert told == ["tool_call_message", "tool_return_message", "assistant_message"]
    assert answer.messages[-1].content == HELLO  # type: ignore[union-attr]
    block = await client.agents.blocks.retrieve("human", agent_id=agent)
    assert block.value == "Name: Ada\nLikes tea"


@STREAM
async def test_a_stream_goes_as_in_three_processes(
    small: HeelerInstance, client: AsyncLetta
) -> None:
    agent = await new_agent(client)

    with httpx.Client(base_url=small.base_url, headers=SDK_HEADERS) as http:
        lines = await asyncio.to_thread(stream, http, agent, CALL)

    assert kinds(lines) == [
        "ping",
        "tool_call_message",
        "tool_return_message",
        "assistant_message",
        "stop_reason",
        "usage_statistics",
        "[DONE]",
    ]


@SEND
async def test_what_the_services_of_the_process_ask_each_other_is_not_on_nats(
    small: HeelerInstance, client: AsyncLetta
) -> None:
    """Events and run streams are there as ever, for those who look from outside."""
    agent = await new_agent(client)
    seen: list[str] = []

    async def see(message: Any) -> None:
        is_reply = b'"outcome"' in message.data and not message.subject.endswith(".unread")
        if not message.subject.startswith("_INBOX.") or is_reply:
            seen.append(message.subject)

    observer = await nats.connect(small.nats_url)
    try:
        for heard in ("*.command.>", "*.query.>", "*.event.>", "*.delta.>", "_INBOX.>"):
            await observer.subscribe(heard, cb=see)
        await observer.flush()

        await client.agents.messages.create(agent, messages=says(CALL))

        def kinds_of(kind: str) -> set[str]:
            tokens = [subject.split(".") for subject in seen]
            return {".".join((parts[0], *parts[2:4])) for parts in tokens if parts[1] == kind}

        wanted = {"agent.run.completed", "agent.tool_call.finished", "memory.block.changed"}
        await wait_for("the events", lambda: wanted <= kinds_of("event"), SECONDS_MAX)
    finally:
        await observer.close()
    assert kinds_of("delta") >= {"agent.run.progress"}
    assert kinds_of("command") <= {f"api.{CHECK}"}, "which asks whether NATS stores commands"
    assert [subject for subject in seen if subject.split(".")[1] == "query"] == []
    assert [subject for subject in seen if subject.startswith("_INBOX.")] == [], "a reply"


async def test_a_command_from_outside_is_served_from_nats(
    small: HeelerInstance, client: AsyncLetta
) -> None:
    agent = await new_agent(client)
    block = await client.agents.blocks.retrieve("human", agent_id=agent)
    bus = NatsBus(small.nats_url, RandomIds().new("outside"))
    await bus.start()
    try:
        command = UpdateBlock(block_id=block.id, changes={"value": "Name: Grace"})
        reply = await bus.request(command, Context(RandomIds().new("test")))
    finally:
        await bus.stop()
    assert isinstance(reply, Accepted), reply
    block = await client.agents.blocks.retrieve("human", agent_id=agent)
    assert block.value == "Name: Grace"


@SEND
async def test_many_messages_share_few_connections(
    small: HeelerInstance, client: AsyncLetta
) -> None:
    agents = [await new_agent(client) for _ in range(AT_ONCE)]

    answers = await asyncio.gather(
        *(client.agents.messages.create(agent, messages=says(CALL)) for agent in agents)
    )

    assert {answer.messages[-1].content for answer in answers} == {HELLO}  # type: ignore[union-attr]
    ((connections,),) = await asyncio.to_thread(
        small.psql, "select count(*) from pg_stat_activity where usename like 'heeler_%'"
    )
    assert 3 <= connections <= SHARED_CONNECTIONS_MAX


@SEND
async def test_a_turn_outlives_the_death_of_its_process(
    small: HeelerInstance, client: AsyncLetta, model: ScriptedModelProcess
) -> None:
    agent = await new_agent(client)
    text = f"{CALL} SLOW:1500 SAY:{unique('survived')}"

    sending = asyncio.create_task(client.agents.messages.create(agent, messages=says(text)))
    await model.wait_for_asked(text, step=1)
    killed = await asyncio.to_thread(small.kill9, "agent")
    answer = await sending

    assert await asyncio.to_thread(small.wait_restarted, "api", killed) != killed
    assert answer.messages[-1].content == text.rpartition("SAY:")[2]  # type: ignore[union-attr]
    assert (await model.asked(text))[0] == 1  # the step that was recorded is not asked again
    history = [message.message_type async for message in client.agents.messages.list(agent)]
    assert sorted(history) == sorted(
        [
            "system_message",
            "user_message",
            "tool_call_message",
            "tool_return_message",
            "assistant_message",
        ]
    )
    block = await client.agents.blocks.retrieve("human", agent_id=agent)
    assert block.value == "Name: Ada\nLikes tea"


@SEND
async def test_turns_that_are_at_different_steps_outlive_the_death_of_the_process(
    small: HeelerInstance, client: AsyncLetta, model: ScriptedModelProcess
) -> None:
    """Commands that were in memory are gone, and sent again: each takes effect once."""
    slow = f"{CALL} SLOW:1500 SAY:{unique('slow')}"
    agents = [await new_agent(client) for _ in range(DYING)]
    sending = [
        asyncio.create_task(client.agents.messages.create(agent, messages=says(text)))
        for number, agent in enumerate(agents)
        for text in [slow if number % 2 else CALL]
    ]
    await model.wait_for_asked(slow, step=1)
    killed = await asyncio.to_thread(small.kill9, "agent")
    answers = await asyncio.gather(*sending)

    assert await asyncio.to_thread(small.wait_restarted, "api", killed) != killed
    for number, (agent, answer) in enumerate(zip(agents, answers, strict=True)):
        said = slow.rpartition("SAY:")[2] if number % 2 else HELLO
        assert answer.messages[-1].content == said  # type: ignore[union-attr]
        block = await client.agents.blocks.retrieve("human", agent_id=agent)
        assert block.value == "Name: Ada\nLikes tea"
        history = [message.message_type async for message in client.agents.messages.list(agent)]
        assert len(history) == 5


def test_two_such_processes_stand_in_for_each_other(model: ScriptedModelProcess) -> None:
    env = {
        "HEELER_PROCESSES": "one",
        "HEELER_REPLICAS": "2",
        "OPENAI_API_BASE": model.base_url,
        "OPENAI_API_KEY": "any",
    }
    with HeelerInstance(env=env) as pair:
        pid = pair.kill9("services")

        with Letta(base_url=pair.base_url, api_key="none", timeout=SECONDS_MAX) as letta:
            agent = letta.agents.create(name=unique("pair"), model=MODEL, memory_blocks=HUMAN)
            answer = letta.agents.messages.create(agent.id, messages=says(CALL))

        assert answer.messages[-1].content == HELLO  # type: ignore[union-attr]
        assert pair.wait_restarted("services", pid) != pid
        pair.wait_healthy()


def test_it_stops_when_asked_and_every_log_line_names_its_service(small: HeelerInstance) -> None:
    small.down()

    lines = [json.loads(line) for line in (small.home / "logs" / "services.log").open()]
    assert {line["service"] for line in lines} == set(SERVICES)
    assert small.state().parts["services"].last_exit in (None, -9)  # only the test killed it
    small.up()
