"""Runs belong to a conversation; the agent's own is one among others."""

from __future__ import annotations

import pytest

from libs.contracts.agent.runs import CancelRuns, StartRun
from libs.contracts.bus_messages import Accepted, Context, Rejected
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.unit_of_work import Repository
from services.agent import projections
from services.agent.domain.conversations.conversation import Conversation
from tests.contract.examples import AGENT, message
from tests.unit.agent.model_replies import words
from tests.unit.agent.world import CONVERSATION, World
from tests.unit.given import NOW

OTHER = "conv-99999999-9999-4999-8999-999999999999"
STRANGER = "conv-88888888-8888-4888-8888-888888888888"
SOMEBODY_ELSE = "agent-22222222-2222-4222-8222-222222222222"


@pytest.fixture
async def world() -> World:
    """An agent with two conversations, and a conversation of somebody else."""
    world = World()
    await world.agent()
    store = InMemoryEventStore(world.database, "agent", "setup")
    work = Repository(store, "agent", projections.project).work(Context("setup-2", org="org-1"))
    for number, (name, agent_id) in enumerate(((OTHER, AGENT), (STRANGER, SOMEBODY_ELSE))):
        conversation = await work.load(Conversation, name)
        system = message(50 + number, role="system", content="Be kind.")
        conversation.begin(agent_id, system, {}, at=NOW)
    await work.commit()
    return world


async def test_a_run_is_answered_in_the_conversation_that_its_command_names(world: World) -> None:
    process = world.process("p-1", words())
    assert isinstance(await process.say("run-1", conversation_id=OTHER), Accepted)
    await process.idle()
    assert world.story(OTHER)[-1] == "run.completed"
    assert "run.accepted" not in world.story(CONVERSATION)
    assert world.row("runs", "run-1")["conversation_id"] == OTHER
    shown = [
        prompt_message.content
        for prompt_message in process.model.asked[0].messages
        if prompt_message.role == "user"
    ]
    assert shown == ["Hi"], "the model sees this conversation alone"


async def test_one_conversation_does_not_wait_for_the_other(world: World) -> None:
    process = world.process("p-1", words("here"), words("there"))
    await process.say("run-1")
    await process.say("run-2", conversation_id=OTHER)
    assert process.drivers.attempts.keys() == {CONVERSATION, OTHER}
    await process.idle()
    assert world.story(CONVERSATION)[-1] == world.story(OTHER)[-1] == "run.completed"


async def test_a_command_of_an_older_api_means_the_agents_own_conversation(world: World) -> None:
    process = world.process("p-1", words())
    command = process.start_run("run-1")
    older = command.model_dump_json(exclude={"conversation_id"})
    assert StartRun.model_validate_json(older).target == CONVERSATION
    await process.tell(StartRun.model_validate_json(older), "m-1")
    await process.idle()
    assert world.row("runs", "run-1")["conversation_id"] == CONVERSATION


async def test_a_conversation_of_another_agent_is_not_found(world: World) -> None:
    process = world.process("p-1")
    expected = Rejected(code="not_found", reason=f"Conversation with ID {STRANGER} not found")
    assert await process.say("run-1", conversation_id=STRANGER) == expected
    cancel = CancelRuns(agent_id=AGENT, conversation_id=STRANGER)
    assert await process.tell(cancel, "m-1") == expected


async def test_cancelling_ends_the_runs_of_one_conversation(world: World) -> None:
    process = world.process("p-1")
    process.drivers.stopping = True  # it accepts, and answers nothing
    await process.say("run-1")
    await process.say("run-2", conversation_id=OTHER)
    cancel = CancelRuns(agent_id=AGENT, conversation_id=OTHER)
    assert await process.tell(cancel, "m-1") == Accepted(result={"run-2": "cancelled"})
    assert world.story(OTHER)[-1] == "run.cancelled"
    assert "run.cancelled" not in world.story(CONVERSATION)


async def test_the_same_words_in_another_conversation_are_no_retry(world: World) -> None:
    process = world.process("p-1", words(), words())
    await process.say("run-1", request_hash="h")
    await process.say("run-2", request_hash="h", retry=True, conversation_id=OTHER)
    await process.idle()
    assert world.story(OTHER).count("run.accepted") == 1
