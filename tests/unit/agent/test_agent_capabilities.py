"""What agents can do, through the real loop; `docs/capabilities.md` has the whole list."""

from __future__ import annotations

import asyncio
import gc
import pickle
import random
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from libs.contracts.agent.stored_to_letta_messages import text_of
from libs.contracts.bus_messages import Context
from libs.contracts.letta.agent_requests import CreateAgent
from libs.contracts.letta.enums import AgentType
from libs.contracts.memory.blocks import CreateBlocks
from libs.contracts.tools.base_tools.catalogue import BASE_TOOLS
from services.agent.domain.agents.agent_types import default_tools
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.prompts.model_context import ModelRequest
from services.agent.domain.runs.step_results import ModelReply
from tests.contract.examples import BLOCK, HUMAN
from tests.processor_bounds import processor_time
from tests.scripted_model import messages_validator, validator
from tests.unit.agent import anthropic_documents
from tests.unit.agent.approvals import run_end
from tests.unit.agent.compaction_chat import SUMMARY, Chat, summarises, words
from tests.unit.agent.heartbeat_calls import call, say, served
from tests.unit.agent.model_replies import calls
from tests.unit.agent.openai_documents import body_of
from tests.unit.agent.world import CONVERSATION, FakeModel, Process, World

LOOK = calls(call("conversation_search", query="tea", request_heartbeat=True))
SEVEN = [*default_tools(AgentType.memgpt_agent), "pause_heartbeats"]
# What the store in memory keeps of a message and its answer is 13,600 bytes.
STORED_BYTES_MAX = 20_000
LIMITS = [*((agent_type, 5) for agent_type in AgentType), (AgentType.react_agent, 10)]


async def answered(world: World, *turns: ModelReply, **fields: Any) -> Process:
    """A process that has answered the first message of an agent with these fields."""
    await world.agent(**fields)
    process = world.process("p-1", *turns)
    await process.say("run-1")
    await process.idle()
    return process


def offered(request: ModelRequest) -> list[str]:
    return [str(tool["name"]) for tool in request.tools]


@pytest.mark.parametrize(("agent_type", "limit"), LIMITS)
async def test_a_run_stops_at_the_last_step_that_it_may_take(
    world: World, agent_type: AgentType, limit: int
) -> None:
    await world.agent(agent_type=agent_type, tools=["conversation_search"])
    process = world.process("p-1", *[LOOK] * limit)
    await process.say("run-1", max_steps=limit)
    await process.idle()
    assert len(process.model.asked) == limit
    assert run_end(world, "run-1") == ("completed", "max_steps")

    process.model.turns = [words()]
    await process.say("run-2")
    await process.idle()
    assert run_end(world, "run-2") == ("completed", "end_turn")


async def test_a_memgpt_agent_has_seven_tools_and_goes_on_by_heartbeats(world: World) -> None:
    process = await answered(
        world, LOOK, say("Hello"), agent_type=AgentType.memgpt_agent, tools=SEVEN
    )
    first, _ = process.model.asked
    assert len(SEVEN) == 7
    assert set(SEVEN) <= BASE_TOOLS.keys()
    assert offered(first) == SEVEN
    assert "request_heartbeat" in str(first.tools[SEVEN.index("conversation_search")])
    assert [kind for kind, _ in served(world)][-1] == "assistant_message"


async def test_a_react_agent_has_the_one_tool_that_it_was_given_and_no_memory(
    world: World,
) -> None:
    setup = world.process("setup")
    await setup.bus.request(CreateBlocks(blocks=[HUMAN]), Context("blocks", org="org-1"))
    process = await answered(
        world,
        words(),
        agent_type=AgentType.react_agent,
        tools=["run_code"],
        block_ids=[BLOCK],
    )
    [request] = process.model.asked
    assert default_tools(AgentType.react_agent) == ()
    assert offered(request) == ["run_code"]
    assert "memory_blocks" not in text_of(request.messages[0])


async def test_a_letta_v1_agent_has_three_tools_and_no_heartbeats(world: World) -> None:
    three = list(default_tools(AgentType.letta_v1_agent))
    process = await answered(world, words(), agent_type=AgentType.letta_v1_agent, tools=three)
    [request] = process.model.asked
    assert len(three) == 3
    assert offered(request) == three
    assert "request_heartbeat" not in str(request.tools)
    assert not request.must_call


async def test_the_type_is_chosen_at_creation_and_says_what_a_call_leads_to(world: World) -> None:
    assert CreateAgent().agent_type is AgentType.letta_v1_agent, "without a choice"
    silent = calls(call("conversation_search", query="tea"))
    await answered(world, silent, words(), agent_type=AgentType.letta_v1_agent)
    other = World()
    await other.start_memory()
    await answered(other, silent, agent_type=AgentType.memgpt_agent)
    assert [kind for kind, _ in served(world)][-1] == "assistant_message", "any call goes on"
    assert [kind for kind, _ in served(other)][-1] == "tool_return_message", "without a heartbeat"


class Speaker(FakeModel):
    """Says three things one after the other by `send_message`, whoever asks and however often.

    Stands still at the question of this number, as one does whose process dies or is frozen.
    """

    def __init__(self, dies_at: int = 0) -> None:
        super().__init__()
        self.dies_at = dies_at
        self.dead, self.awake = asyncio.Event(), asyncio.Event()

    async def reply(self, request: ModelRequest) -> ModelReply:
        assert validator.check(body_of(request)) is None
        assert messages_validator.check(anthropic_documents.body_of(request)) is None
        self.asked.append(request)
        if len(self.asked) == self.dies_at:
            self.dead.set()
            await self.awake.wait()
        [*_, last] = (at for at, message in enumerate(request.messages) if message.role == "user")
        number = sum(message.role == "tool" for message in request.messages[last:]) + 1
        text = f"{text_of(request.messages[last])} {number}"
        return calls(call("send_message", number, message=text, request_heartbeat=number < 3))


@pytest.mark.parametrize("seed", range(30))
async def test_what_send_message_says_is_neither_lost_nor_doubled_under_faults(
    world: World, seed: int
) -> None:
    """A fifth of all commits fails, before or after it happened, and a process is frozen in between
    and wakes up too late; what comes meanwhile waits in line."""
    chance = random.Random(seed)
    await world.agent(agent_type=AgentType.memgpt_agent, tools=["send_message"])
    dying, heir = (Process(world, name, Speaker()) for name in ("p-1", "p-2"))
    assert isinstance(dying.model, Speaker)
    dying.model.dies_at = chance.randint(1, 6)
    for process in (dying, heir):
        faults = {number: chance.random() for number in range(1, 200)}
        process.store.lost_before = {number for number, fault in faults.items() if fault < 0.1}
        process.store.lost_after = {
            number for number, fault in faults.items() if 0.1 <= fault < 0.2
        }

    runs = [f"run-{number}" for number in range(1, 4)]
    for number, run_id in enumerate(runs):
        await chance.choice((dying, heir) if number else (dying,)).say(run_id, f"to {run_id}")
    await dying.model.dead.wait()
    for _ in range(20):
        world.lease_expires()
        await heir.drivers.sweep()
        await heir.idle()
    dying.model.awake.set()
    await dying.idle()

    assert [run_end(world, run) for run in runs] == [("completed", "end_turn")] * 3
    assert served(world) == [
        ("assistant_message", f"to {run_id} {number}") for run_id in runs for number in (1, 2, 3)
    ]


@pytest.fixture
def chat() -> Chat:
    return Chat(World())


async def test_ten_exchanges_are_in_context_also_in_a_new_process(chat: Chat) -> None:
    await chat.begin(window=60_000)
    await chat.talk(10, 100)
    later = chat.world.process("p-2", words("All of it."))
    chat.process = later

    await chat.say("What did I ask?")

    [request] = later.model.asked
    spoken = [
        text_of(message) for message in request.messages if message.role in ("user", "assistant")
    ]
    assert [text.split(" q")[0] for text in spoken[:-1:2]] == [f"question {n}" for n in range(10)]
    assert [text.split(" a")[0] for text in spoken[1::2]] == [f"answer {n}" for n in range(10)]


@pytest.fixture
async def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of each wait that comes to its end: of the loop, or of the whole thread. A
    deadline that is kept is none."""
    found: list[float] = []
    loop = asyncio.get_running_loop()
    call_at = loop.call_at

    def noted(when: float, callback: Callable[..., Any], *args: Any, **context: Any) -> Any:
        seconds = when - loop.time()

        def fires(*args: Any) -> None:
            found.append(seconds)
            callback(*args)

        return call_at(when, fires, *args, **context)

    monkeypatch.setattr(loop, "call_at", noted)
    monkeypatch.setattr(time, "sleep", found.append)
    return found


async def test_an_answer_takes_as_long_as_its_model_and_waits_for_nothing_else(
    world: World, waits: list[float]
) -> None:
    """Neither by its own clock, which only a wait moves on, nor by any other; and its own work
    takes less than the model does, of a processor."""
    model_seconds = 0.4

    async def slow() -> ModelReply:
        world.clock.seconds += model_seconds
        return words()

    await world.agent()
    process = world.process("p-1", slow, slow)
    for run_id in ("run-1", "run-2"):
        begun = world.clock.seconds
        with processor_time(model_seconds):
            await process.say(run_id)
            await process.idle()
        assert world.clock.seconds - begun == pytest.approx(model_seconds)
        assert run_end(world, run_id) == ("completed", "end_turn")
    assert waits == []


async def test_a_wait_is_noticed_and_a_deadline_that_is_kept_is_none(waits: list[float]) -> None:
    async with asyncio.timeout(60):
        await asyncio.sleep(0)
    assert waits == []
    await asyncio.sleep(0.001)
    time.sleep(30)  # noqa: ASYNC251 - it takes no time here
    assert waits == [pytest.approx(0.001, abs=0.001), 30]


async def say_much(chat: Chat, messages: int) -> AsyncIterator[int]:
    """A conversation that is compacted again and again: the number of each message that is
    answered, of which nothing is kept here."""

    async def reply() -> ModelReply:
        return SUMMARY if summarises(chat.asked[-1]) else words("a" * 300)

    for number in range(messages):
        await chat.say(f"{number} " + "q" * 300, *[reply] * 3)
        chat.process.model.turns.clear()
        del chat.asked[:-1]
        yield number


async def test_what_is_kept_of_a_conversation_does_not_grow_with_it(chat: Chat) -> None:
    await chat.begin()

    async def state_bytes_max(messages: int) -> int:
        most = 0
        async for _ in say_much(chat, messages):
            talk = await chat.process.repository.load(Conversation, CONVERSATION, org="org-1")
            most = max(most, len(pickle.dumps(talk.state)))
        return most

    young, old = await state_bytes_max(40), await state_bytes_max(120)
    assert old < young * 1.05
    assert old < 40_000


async def test_a_process_keeps_nothing_of_a_message_but_what_is_stored(chat: Chat) -> None:
    """By all that it has allocated, of which the store in memory is a part."""

    async def bytes_of_a_message(messages: int) -> float:
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        async for _ in say_much(chat, messages):
            pass
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        return (after - before) / messages

    await chat.begin()
    tracemalloc.start()
    try:
        await bytes_of_a_message(40)  # until caches are full and the window is compacted
        assert await bytes_of_a_message(60) < STORED_BYTES_MAX
    finally:
        tracemalloc.stop()
