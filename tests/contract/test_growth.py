"""What Postgres reads for a request does not grow with what is stored: every route that lists,
counts or retrieves, with each of its parameters, asked of few agents and of four times as many."""

from __future__ import annotations

import re

import psycopg
import pytest

from libs.contracts.agent.conversations import main_conversation
from libs.eventstore.connection_pool import open_pool
from services.api.adapters.resource_query_builder import NEWEST_LOOKED_AT
from tests.asked_routes import AskedApi, Question, questions
from tests.contract.many_agents import ASKED, IDS, id_of, make_agents
from tests.servers import PostgresServer

FEW = NEWEST_LOOKED_AT + 100
MANY = 4 * FEW
RATIO_MAX = 1.5
ROOM_BLOCKS = 10  # an index has one more level, or a page splits
# What says something of everything that there is, or has no index, and why.
GROWS = {
    # The answer names each of them, with a number.
    "/v1/topics": "every topic with its subscribers",
    "/v1/capabilities": "the agents of each capability are counted",
    "/v1/folders/metadata.*": "the sum of all files",
    # What fits is counted one by one: here it is all that there is.
    "/v1/agent-groups/count.manager_type=supervisor": "all of them fit",
    "/v1/blocks/count.match_all_tags=true": "all of them fit",
    "/v1/tools/count.exclude_(tool_types=rare|letta_tools=true)": "all of them fit",
    # Few: nothing makes one for each agent.
    "/v1/templates.*": "templates are saved by people",
    "/v1/admin/dead-letters.*": "dead letters are few, or there is more to mend than a list",
    # No row knows it; the runs are looked up of each.
    ".*order_by=last_run_completion": "the runs of each are looked up",
    # Of no message: each says in which forms it is served.
    "/v1/messages.include_return_message_types=.*": "what none has",
    # Blocks without an agent are in no index.
    ".*connected_to_agents_count_(lt|eq)=.*": "the number of each block is looked up",
}
# Of what nobody makes in great numbers there is no row here, nor a service that is asked.
NOT_THERE = re.compile(
    "/v1/(jobs|mcp-servers|sandbox-config|messages/batches|_internal_templates)/.*|.*/replays/.*"
    "|.*/configuration|.*/next.*|.*/versions/.*|.*/snapshot|.*/runs/{group_run_id}|.*/context.conversation.*"
    "|.*/context/left-out.*"
)
TOGETHER = [
    Question(path, (("tags", "all"), ("tags", "rare"), ("match_all_tags", "true")))
    for path in ("/v1/agents", "/v1/agents/count", "/v1/blocks", "/v1/blocks/count", "/v1/projects")
]
SEARCHES = [
    Question("/v1/messages/search", body={"query": "zebra", "search_mode": "fts", **scope})
    for scope in (
        {},
        {"agent_id": id_of("agent")},
        {"conversation_id": main_conversation(id_of("agent"))},
    )
]


async def blocks_read(server: PostgresServer, agents: int, failed: list[str]) -> dict[str, int]:
    """How many blocks each question reads where there are so many agents; what was not answered
    is added to `failed`."""
    url = server.create_migrated_database(f"growth_{agents}")
    with psycopg.connect(url, autocommit=True) as connection:
        make_agents(connection, agents)
    read: dict[str, int] = {}
    async with open_pool(url) as pool:
        api = AskedApi(pool)
        for question in (*questions(IDS, ASKED), *TOGETHER, *SEARCHES):
            answer = await api.ask(question)
            if answer.status_code != 200 and not NOT_THERE.fullmatch(str(question)):
                failed.append(f"{question}: {answer.text}")
            read[str(question)] = api.database.blocks
    return read


@pytest.mark.timeout(900)  # some 800 requests, each of which is planned twice
async def test_no_request_that_reads_costs_more_blocks_where_there_are_more_agents(
    postgres_server: PostgresServer,
) -> None:
    failed: list[str] = []
    few, many = [await blocks_read(postgres_server, agents, failed) for agents in (FEW, MANY)]

    grown = {
        question: (few[question], blocks)
        for question, blocks in many.items()
        if blocks > RATIO_MAX * few[question] + ROOM_BLOCKS
    }
    known = [re.compile(pattern) for pattern in GROWS]
    unknown = {
        question: blocks
        for question, blocks in grown.items()
        if not any(pattern.fullmatch(question) for pattern in known)
    }
    told = [*failed, *(f"{question}: {blocks}" for question, blocks in unknown.items())]
    assert not told, "\n".join(told)
