"""TOOL-22: agents write to each other, also where the process dies that waits."""

from __future__ import annotations

import asyncio
from ast import literal_eval
from typing import Any

import pytest
from letta_client import AsyncLetta, Letta

from tests.e2e.asking import says, tool_return, unique
from tests.e2e.conftest import NewAgent
from tests.servers import HeelerInstance
from tests.waiting import wait_for

WAIT = "send_message_to_agent_and_wait_for_reply"
ASYNC = "send_message_to_agent_async"
TAGS = "send_message_to_agents_matching_tags"
NO_SCRIPT = "Hello from the scripted model."  # nobody wrote to the other agent as a user


def of_agent(heeler: HeelerInstance, agent_id: str) -> list[tuple[Any, ...]]:
    """How far the runs of an agent are that others called."""
    return heeler.psql(
        "select r.status from agent.runs r join agent.called_runs c on c.run_id = r.id"
        f" where r.agent_id = '{agent_id}'"
    )


@pytest.mark.operation("POST /v1/agents/")
def test_agents_write_to_each_other(
    letta: Letta, new_agent: NewAgent, heeler: HeelerInstance
) -> None:
    tag = unique("team")
    ada = new_agent(extra_body={"include_multi_agent_tools": True})
    bob, cleo = new_agent(tags=[tag, "quick"]), new_agent(tags=[tag])
    assert {WAIT, ASYNC, TAGS} <= {tool.name for tool in ada.tools}

    said = f'CALL:{WAIT}:{{"message": "What is Red?", "other_agent_id": "{bob.id}"}} SAY:thanks'
    answer = letta.agents.messages.create(ada.id, messages=says(said))
    result = tool_return(answer.messages)
    assert (result.status, result.name) == ("success", WAIT)
    assert literal_eval(result.tool_return) == {"agent_id": bob.id, "response": [NO_SCRIPT]}
    assert answer.messages[-1].content == "thanks"
    heard = letta.agents.messages.list(bob.id, order="desc").items[1]
    assert heard.message_type == "system_message"
    assert (
        heard.content == f"[Message from agent {ada.id}: your answer goes back to it] What is Red?"
    )
    assert heard.sender_id == ada.id

    gathered = f'CALL:{TAGS}:{{"message": "Hi", "match_all": ["{tag}"], "match_some": []}}'
    result = tool_return(letta.agents.messages.create(ada.id, messages=says(gathered)).messages)
    assert {reply["agent_id"]: reply["response"] for reply in literal_eval(result.tool_return)} == {
        bob.id: [NO_SCRIPT],
        cleo.id: [NO_SCRIPT],
    }
    missing = f'CALL:{WAIT}:{{"message": "Hi", "other_agent_id": "{ada.id[:-4]}ffff"}}'
    result = tool_return(letta.agents.messages.create(ada.id, messages=says(missing)).messages)
    assert (result.status, "not found" in result.tool_return) == ("error", True)
    run = letta.runs.list(agent_id=bob.id).items[0]
    assert run.metadata is not None
    assert run.metadata["run_type"] == "send_message_to_agent"


async def test_a_message_without_waiting_is_sent_while_the_other_agent_is_busy(
    aletta: AsyncLetta, new_agent: NewAgent, heeler: HeelerInstance
) -> None:
    ada, bob = new_agent(extra_body={"include_multi_agent_tools": True}), new_agent()
    busy = await aletta.agents.messages.create_async(
        bob.id, messages=says("SLOW:2000 SAY:now I have time")
    )
    tell = f'CALL:{ASYNC}:{{"message": "Hi", "other_agent_id": "{bob.id}"}} SAY:sent'
    answer = await aletta.agents.messages.create(ada.id, messages=says(tell))
    assert tool_return(answer.messages).tool_return == "Successfully sent message"
    assert (await aletta.runs.retrieve(busy.id)).status == "running"
    await wait_for("the other agent", lambda: of_agent(heeler, bob.id) == [("completed",)])


async def test_an_agent_whose_process_is_killed_while_it_waits_gets_the_answer_of_one_run(
    heeler: HeelerInstance, aletta: AsyncLetta, new_agent: NewAgent
) -> None:
    """The call is made again after kill -9 and is the same one: its run has its id from it."""
    ada, bob = new_agent(extra_body={"include_multi_agent_tools": True}), new_agent()
    await aletta.agents.messages.create_async(bob.id, messages=says("SLOW:1500 SAY:first"))
    tell = f'CALL:{WAIT}:{{"message": "Hi", "other_agent_id": "{bob.id}"}} SAY:thanks'
    asked = asyncio.ensure_future(aletta.agents.messages.create(ada.id, messages=says(tell)))
    await wait_for("the call", lambda: of_agent(heeler, bob.id) == [("created",)])
    heeler.wait_restarted("agent", heeler.kill9("agent"))
    answer = await asked

    result = tool_return(answer.messages)
    assert (result.status, result.tool_return[:5]) == ("success", "{'age")
    assert answer.messages[-1].content == "thanks"
    assert of_agent(heeler, bob.id) == [("completed",)]
