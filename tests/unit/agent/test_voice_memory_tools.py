"""The tools of agents for voice: what is kept of a transcript, and what is found again."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from libs.contracts.agent.conversations import ToolCall
from libs.contracts.bus_messages import Accepted
from libs.contracts.memory.archives import InsertPassages, SearchPassages
from services.agent.adapters.conversation_search import FoundMessage
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.runs.step_results import ToolResult
from tests.contract.examples import AGENT, CONFIG, RUN, STEP
from tests.unit.agent.memory_tools import CONTEXT, ToldBus, ToldQueries, runner
from tests.unit.given import NOW

AT = datetime(2026, 5, 1, 12, tzinfo=UTC)
TRANSCRIPT = "Transcript:\n0. user: I sing.\n1. assistant: Nice.\n2. user: In Bern.\nThe end"
DESIGN = AgentDesign(
    config=CONFIG, tools=["search_memory", "store_memories"], tags=[], block_ids=[]
)


async def run(name: str, arguments: Any, said: str, **answer: Any) -> tuple[ToolResult, ToldBus]:
    bus = ToldBus(Accepted(result=answer))
    tools = runner(bus, ToldQueries([FoundMessage("user", AT, said)] if said else []))
    call = ToolCall(id="call_1", name=name, arguments=json.dumps(arguments))
    return await tools.run(call, DESIGN, RUN, STEP, CONTEXT), bus


async def test_ranges_of_a_transcript_are_stored_with_what_they_say() -> None:
    chunks = [
        {"start_index": 0, "end_index": 1, "context": "She sings."},
        {"start_index": 2, "end_index": 99, "context": "She lives in Bern."},
    ]
    result, bus = await run("store_memories", {"chunks": chunks}, TRANSCRIPT)
    assert result == ToolResult("success", "2 memories are stored.")
    [(command, _)] = bus.sent
    assert isinstance(command, InsertPassages)
    assert command.agent_id == AGENT
    assert [passage.text for passage in command.passages] == [
        "She sings.\nuser: I sing.\nassistant: Nice.",
        "She lives in Bern.\nuser: In Bern.",
    ]
    again, same = await run("store_memories", {"chunks": chunks}, TRANSCRIPT)
    assert (again, same.sent) == (result, bus.sent), "the same call is the same command"


async def test_a_sleeptime_agent_stores_in_the_archives_of_the_agent_that_it_reviews() -> None:
    bus, queries = ToldBus(Accepted()), ToldQueries([FoundMessage("user", AT, TRANSCRIPT)])
    queries.archive_owners[AGENT] = "agent-reviewed"
    chunks = [{"start_index": 0, "end_index": 0, "context": "She sings."}]
    arguments = json.dumps({"chunks": chunks})
    call = ToolCall(id="call_1", name="store_memories", arguments=arguments)
    await runner(bus, queries).run(call, DESIGN, RUN, STEP, CONTEXT)
    [(command, _)] = bus.sent
    assert isinstance(command, InsertPassages)
    assert command.agent_id == "agent-reviewed"


@pytest.mark.parametrize(
    ("chunks", "said", "words"),
    [
        ([{"start_index": 7, "end_index": 9, "context": ""}], TRANSCRIPT, "the lines are 0 to 2"),
        ([{"start_index": 0, "end_index": 1, "context": ""}], "Hello", "no transcript"),
        ([{"start_index": 0, "end_index": 1, "context": ""}], "", "no transcript"),
        ([], TRANSCRIPT, "chunks"),
        ([{"start_index": -1, "end_index": 1, "context": ""}], TRANSCRIPT, "start_index"),
    ],
    ids=["beyond", "no lines", "nothing", "none", "negative"],
)
async def test_what_cannot_be_stored_says_why(chunks: Any, said: str, words: str) -> None:
    result, bus = await run("store_memories", {"chunks": chunks}, said)
    assert (result.status, bus.sent) == ("error", [])
    assert words in result.text


async def test_a_search_is_by_the_last_words_of_the_user_and_by_keywords() -> None:
    fields = {"created_at": "2026-05-01T12:00:00Z", "text": "She sings."}
    passage = {"id": "passage-1", "collection_id": "archive-1", "score": 0.5, "fields": fields}
    asked = {"convo_keyword_queries": ["sing"], "start_minutes_ago": 60, "end_minutes_ago": 5}
    result, bus = await run("search_memory", asked, "What do I do?", passages=[passage])
    [(command, _)] = bus.sent
    assert isinstance(command, SearchPassages)
    assert (command.query, command.agent_id) == ("What do I do?", AGENT)
    after, before = NOW - timedelta(minutes=60), NOW - timedelta(minutes=5)
    assert (command.after, command.before) == (after, before), "also the wrong way round"
    assert json.loads(result.text) == {
        "archival_search_results": [{"timestamp": "2026-05-01T12:00:00Z", "content": "She sings."}],
        "convo_keyword_search_results": {"sing": ["What do I do?"]},
    }
