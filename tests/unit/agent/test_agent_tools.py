"""The tools that a model calls, with a bus and queries that are told what to answer."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from libs.bus.ports import BusUnavailable
from libs.contracts.agent.conversations import ToolCall
from libs.contracts.bus_messages import UNAVAILABLE, Accepted, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.memory.blocks import Cause, EditBlock, InsertText, ReplaceText, RewriteBlock
from libs.contracts.memory.semantic_message_search import NearestMessages
from libs.contracts.shortened_text import NOTE
from libs.contracts.tools.base_tools.catalogue import BASE_TOOLS
from libs.contracts.tools.base_tools.definition import TOOL_RETURN_CHARS_MAX
from libs.contracts.tools.tool_permission_evaluation import ToolPolicies
from libs.eventstore.ports import StoreUnavailable
from services.agent.adapters.conversation_search import FoundMessage, Search
from services.agent.adapters.memory_tools import MemoryTools
from services.agent.adapters.tool_router import ToolRouter
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.runs.step_results import ToolResult
from services.agent.settings import TOOL_SECONDS_MAX
from tests.clock_and_ids import ManualClock
from tests.contract.examples import AGENT, BLOCK, CONFIG, RUN, SHARED_BLOCK, STEP, TOOLS
from tests.unit.agent.memory_tools import CONTEXT, ToldBus, ToldQueries, runner

TAKEN_AWAY = "store_memories"  # it may not run twice
OLDER_TOOLS = [
    "conversation_search_date",
    "core_memory_append",
    "core_memory_replace",
    "memory_finish_edits",
    "memory_rethink",
    "rethink_memory",
    "send_message",
]
DESIGN = AgentDesign(
    config=CONFIG.model_copy(update={"timezone": "Europe/Berlin"}),
    tools=[*TOOLS, TAKEN_AWAY, *OLDER_TOOLS],
    tags=[],
    block_ids=[BLOCK, SHARED_BLOCK],
)


def without(tools: ToolRouter, name: str) -> None:
    """Let nobody carry out calls of a tool of the memory service."""
    memory = tools.owners["memory"]
    assert isinstance(memory, MemoryTools)
    del memory.runners[name]


async def run(tools: ToolRouter, name: str, arguments: Any) -> ToolResult:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    call = ToolCall(id="call_1", name=name, arguments=text)
    return await tools.run(call, DESIGN, RUN, STEP, CONTEXT)


class TestMemoryTools:
    @pytest.mark.parametrize(
        ("name", "arguments", "block_id", "edit"),
        [
            (
                "memory_replace",
                {"label": "human", "old_string": "a", "new_string": "b"},
                BLOCK,
                ReplaceText(old_text="a", new_text="b"),
            ),
            (
                "memory_insert",
                {"label": "shared", "new_string": "b"},
                SHARED_BLOCK,
                InsertText(new_text="b", after_line=-1),
            ),
            (
                "memory_insert",
                {"label": "human", "new_string": "b", "insert_line": 2, "request_heartbeat": True},
                BLOCK,
                InsertText(new_text="b", after_line=2),
            ),
            (
                "core_memory_append",
                {"label": "human", "content": "b"},
                BLOCK,
                InsertText(new_text="b", after_line=-1),
            ),
            (
                "core_memory_replace",
                {"label": "human", "old_content": "a", "new_content": "b"},
                BLOCK,
                ReplaceText(old_text="a", new_text="b", every=True),
            ),
        ],
    )
    async def test_an_edit_is_a_command_that_says_which_call_asked(
        self, name: str, arguments: Any, block_id: str, edit: Any
    ) -> None:
        bus = ToldBus(Accepted(result={"value": "new value"}))
        result = await run(runner(bus), name, arguments)
        assert result == ToolResult("success", "new value")
        [(command, context)] = bus.sent
        cause = Cause(agent_id=AGENT, run_id=RUN, tool_call_id="call_1", tool=name)
        assert command == EditBlock(block_id=block_id, edit=edit, cause=cause)
        assert context == CONTEXT.follow_up(derived_id("cmd", STEP, "call_1"))

    @pytest.mark.parametrize(
        ("name", "arguments"),
        [
            ("memory_rethink", {"label": "human", "new_memory": "b"}),
            ("rethink_memory", {"target_block_label": "human", "new_memory": "b"}),
        ],
    )
    async def test_a_block_is_rewritten_as_a_whole(self, name: str, arguments: Any) -> None:
        bus = ToldBus(Accepted(result={"value": "b"}))
        assert await run(runner(bus), name, arguments) == ToolResult("success", "b")
        [(command, _)] = bus.sent
        cause = Cause(agent_id=AGENT, run_id=RUN, tool_call_id="call_1", tool=name)
        assert command == RewriteBlock(block_id=BLOCK, value="b", cause=cause)

    @pytest.mark.parametrize(
        ("name", "arguments"), [("memory_finish_edits", {}), ("send_message", {"message": "Hi"})]
    )
    async def test_what_only_says_something_does_nothing(self, name: str, arguments: Any) -> None:
        assert (await run(runner(), name, arguments)).status == "success"

    async def test_a_refusal_is_what_the_model_sees(self) -> None:
        bus = ToldBus(Rejected(code="unprocessable", reason="It is read-only."))
        arguments = {"label": "human", "new_string": "x"}
        assert await run(runner(bus), "memory_insert", arguments) == ToolResult(
            "error", "It is read-only."
        )

    async def test_a_label_may_be_quoted_as_the_prompt_does(self) -> None:
        bus, queries = ToldBus(Accepted(result={"value": "v"})), ToldQueries()
        queries.shared_label = "a>b"
        for label in ("a>b", "a&#62;b"):
            arguments = {"label": label, "new_string": "x"}
            result = await run(runner(bus, queries), "memory_insert", arguments)
            assert result.status == "success"
        assert [command.target for command, _ in bus.sent] == [SHARED_BLOCK, SHARED_BLOCK]

    async def test_of_two_blocks_with_one_label_the_one_attached_first_is_edited(self) -> None:
        bus, queries = ToldBus(Accepted(result={"value": "v"})), ToldQueries()
        queries.shared_label = "human"
        await run(runner(bus, queries), "memory_insert", {"label": "human", "new_string": "x"})
        assert [command.target for command, _ in bus.sent] == DESIGN.block_ids[:1]
        assert {BLOCK, SHARED_BLOCK} <= {*DESIGN.block_ids}

    async def test_an_unknown_label_lists_the_known_ones(self) -> None:
        result = await run(runner(), "memory_insert", {"label": "pet", "new_string": "x"})
        assert result.status == "error"
        assert "'pet'" in result.text
        assert "human, shared" in result.text

    async def test_a_call_during_an_outage_is_sent_again_as_the_same_command(self) -> None:
        away = (BusUnavailable("away"), StoreUnavailable("away"))
        bus = ToldBus(*away, Accepted(result={"value": "v"}))
        result = await run(runner(bus), "memory_insert", {"label": "human", "new_string": "x"})
        assert result == ToolResult("success", "v")
        assert len(bus.sent) == 3
        assert len({context.message_id for _, context in bus.sent}) == 1

    async def test_an_outage_that_lasts_becomes_an_error_that_the_model_sees(self) -> None:
        clock = ManualClock()
        tools = runner(ToldBus(BusUnavailable("away")), clock=clock)
        result = await run(tools, "memory_insert", {"label": "human", "new_string": "x"})
        assert result.status == "error"
        assert "may or may not have worked" in result.text
        assert TOOL_SECONDS_MAX <= clock.seconds <= TOOL_SECONDS_MAX + 2


class TestCalls:
    @pytest.mark.parametrize(
        ("name", "arguments", "words"),
        [
            ("memory_insert", '{"broken": ', "do not fit 'memory_insert'"),
            ("memory_insert", {}, "label: Field required; new_string: Field required"),
            ("memory_insert", "[]", "arguments:"),
            ("memory_insert", {"label": "a", "new_string": "b", "insert_line": "x"}, "insert_line"),
            ("conversation_search", {"limit": "many"}, "limit"),
            ("conversation_search", {"roles": ["human"]}, "'user', 'assistant'"),
            ("conversation_search", {"start_date": "soon"}, "`start_date` is 'soon', which is no"),
            ("conversation_search", {"start_date": "0001-01-01"}, "no time that is understood"),
            ("conversation_search", {"end_date": "9999-12-31T23:00-05:00"}, "Use 2026-01-31"),
        ],
    )
    async def test_bad_arguments_are_an_error_that_the_model_sees(
        self, name: str, arguments: Any, words: str
    ) -> None:
        result = await run(runner(), name, arguments)
        assert result.status == "error"
        assert words in result.text

    async def test_a_tool_that_the_agent_has_not_got_is_an_error_with_those_it_has(self) -> None:
        result = await run(runner(), "fly", {})
        assert result.status == "error"
        assert "'fly'" in result.text
        assert "memory_insert" in result.text

    async def test_a_tool_that_is_not_built_says_so(self) -> None:
        tools = runner()
        without(tools, TAKEN_AWAY)
        result = await run(tools, TAKEN_AWAY, {"chunks": []})
        assert result.status == "error"
        assert "not built yet" in result.text

    async def test_a_tool_whose_owner_is_not_there_says_so(self) -> None:
        held = AgentDesign(
            config=CONFIG, tools=["send_message_to_agent_async"], tags=[], block_ids=[]
        )
        call = ToolCall(id="call_1", name="send_message_to_agent_async", arguments="{}")
        router = ToolRouter({}, ManualClock(), policies=ToolPolicies)
        result = await router.run(call, held, RUN, STEP, CONTEXT)
        assert result == ToolResult(
            "error",
            "The tool 'send_message_to_agent_async' is not built yet on this server.",
        )

    def test_the_catalogue_names_the_owner_that_carries_a_tool_out(self) -> None:
        router = runner()
        for name, owner in (
            ("memory_replace", "memory"),
            ("memory_insert", "memory"),
            ("conversation_search", "agent"),
        ):
            assert BASE_TOOLS[name].owner == owner
            assert router.runner(BASE_TOOLS[name]) is not None
            assert (
                ToolRouter({}, ManualClock(), policies=ToolPolicies).runner(BASE_TOOLS[name])
                is None
            )

    async def test_a_long_result_is_cut_and_says_by_how_much(self) -> None:
        value = "x" * (TOOL_RETURN_CHARS_MAX + 7)
        bus = ToldBus(Accepted(result={"value": value}))
        result = await run(runner(bus), "memory_insert", {"label": "human", "new_string": "x"})
        note = NOTE.format(chars=len(value), limit=TOOL_RETURN_CHARS_MAX)
        assert result.text == "x" * TOOL_RETURN_CHARS_MAX + note

    def test_only_what_does_something_twice_may_not_run_twice(self) -> None:
        tools = runner()
        assert all(tools.idempotent(name, DESIGN) for name in TOOLS)
        assert not tools.idempotent(TAKEN_AWAY, DESIGN)
        without(tools, TAKEN_AWAY)
        assert tools.idempotent(TAKEN_AWAY, DESIGN), "nobody carries it out, so it does nothing"


class TestSearch:
    async def test_a_search_without_arguments_lists_what_was_said(self) -> None:
        queries = ToldQueries()
        result = await run(runner(queries=queries), "conversation_search", {})
        assert result == ToolResult("success", "No results found.")
        assert queries.searches == [
            Search("org-1", AGENT, None, ["user", "assistant"], None, None, 5)
        ]

    async def test_a_search_is_by_words_role_time_and_limit(self) -> None:
        queries = ToldQueries()
        wanted = {
            "query": "tea",
            "roles": "assistant",
            "limit": 1_000,
            "start_date": "2026-05-01",
            "end_date": "2026-05-02T14:30",
        }
        await run(runner(queries=queries), "conversation_search", wanted)
        since = datetime(2026, 4, 30, 22, 0, tzinfo=UTC)
        until = datetime(2026, 5, 2, 12, 30, tzinfo=UTC)
        assert queries.searches == [Search("org-1", AGENT, "tea", ["assistant"], since, until, 100)]

    async def test_what_was_found_is_shown_in_the_agents_time(self) -> None:
        found = FoundMessage("user", datetime(2026, 5, 17, 12, 30, 15, tzinfo=UTC), "I like téa")
        result = await run(runner(queries=ToldQueries([found])), "conversation_search", {})
        head, _, listed = result.text.partition(": ")
        assert head == "Showing 1 results"
        assert json.loads(listed) == [
            {"timestamp": "2026-05-17T14:30:15+02:00", "role": "user", "content": "I like téa"}
        ]

    async def test_days_are_listed_a_page_at_a_time(self) -> None:
        at = datetime(2026, 5, 1, 12, tzinfo=UTC)
        queries = ToldQueries([FoundMessage("user", at, str(n)) for n in range(7)])
        tools = runner(queries=queries)
        days = {"start_date": "2026-05-01", "end_date": "2026-05-02"}
        result = await run(tools, "conversation_search_date", {**days, "page": 1})
        assert result.text.startswith("Showing 2 results: ")
        assert [message["content"] for message in json.loads(result.text.partition(": ")[2])] == [
            "5",
            "6",
        ]
        since = datetime(2026, 4, 30, 22, 0, tzinfo=UTC)
        until = datetime(2026, 5, 2, 21, 59, 59, 999999, UTC)
        assert queries.searches == [
            Search("org-1", AGENT, None, ["user", "assistant"], since, until, 10)
        ]
        for wrong, words in (
            ({**days, "page": 20}, "at most 19"),
            ({**days, "page": -1}, "page"),
            ({**days, "end_date": ""}, "`end_date` is empty"),
            ({**days, "end_date": "soon"}, "`end_date` is 'soon', which is no time"),
            ({**days, "end_date": "2026-04-01"}, "give the earlier one as `start_date`"),
        ):
            refused = await run(tools, "conversation_search_date", wrong)
            assert refused.status == "error"
            assert words in refused.text

    async def test_a_search_has_pages(self) -> None:
        """MEM-16: of the size that is asked for."""
        at = datetime(2026, 5, 1, 12, tzinfo=UTC)
        queries = ToldQueries([FoundMessage("user", at, str(n)) for n in range(7)])
        wanted = {"query": "tea", "limit": 3, "page": 2}
        result = await run(runner(queries=queries), "conversation_search", wanted)
        assert [message["content"] for message in json.loads(result.text.partition(": ")[2])] == [
            "6"
        ]
        [search] = queries.searches
        assert (search.text, search.limit) == ("tea", 9)

    async def test_what_is_near_in_meaning_is_found_beside_what_has_the_words(self) -> None:
        """MEM-16: the places in both lists count together; a fork's copy is found once."""
        at = datetime(2026, 5, 1, 12, tzinfo=UTC)
        newest, oldest = (FoundMessage("user", at, text) for text in ("tea again", "tea"))
        queries = ToldQueries([newest, oldest])
        queries.named = {"m-1": oldest, "m-2": FoundMessage("user", at, "a hot drink")}
        queries.named["m-3"] = queries.named["m-2"]
        near: list[Any] = [
            {"id": message_id, "similarity": 0.5} for message_id in ("m-1", "m-2", "m-3", "gone")
        ]
        bus = ToldBus(Accepted(result={"messages": near}))
        result = await run(runner(bus, queries), "conversation_search", {"query": "tea"})
        shown = json.loads(result.text.partition(": ")[2])
        assert [message["content"] for message in shown] == ["tea", "tea again", "a hot drink"]
        [(command, _)] = bus.sent
        asker = derived_id("search", STEP, "call_1")
        assert command == NearestMessages(asker=asker, query="tea", agent_id=AGENT)

    @pytest.mark.parametrize(
        "trouble",
        [BusUnavailable("away"), Rejected(code=UNAVAILABLE, reason="the model is away")],
        ids=["no answer", "no model"],
    )
    async def test_words_are_found_where_meaning_cannot_be_asked_for(
        self, trouble: Exception | Rejected
    ) -> None:
        queries = ToldQueries([FoundMessage("user", datetime(2026, 5, 1, tzinfo=UTC), "tea")])
        tools = runner(ToldBus(trouble), queries)
        result = await run(tools, "conversation_search", {"query": "tea"})
        assert result.text.startswith("Showing 1 results")

    async def test_a_search_waits_for_the_store(self) -> None:
        queries = ToldQueries(StoreUnavailable("away"))
        result = await run(runner(queries=queries), "conversation_search", {})
        assert result.status == "error"
        assert len(queries.searches) > 100


HOSTILE = {
    "ten megabytes": '{"label": "human", "new_string": "' + "x" * 10_000_000 + '"}',
    "nested": '{"label": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "nested and open": "[" * 100_000,
    "no JSON": "\ufffd" * 1_000,
    "no object": "[]",
    "empty": "",
    "many problems": json.dumps({"roles": [[n] for n in range(50_000)], "label": 1}),
    "a long query": json.dumps({"query": "x" * 100_000}),
    "a huge number": '{"label": "human", "new_string": "x", "insert_line": ' + "9" * 5_000 + "}",
}


@pytest.mark.parametrize("name", ["memory_insert", "memory_replace", "conversation_search"])
@pytest.mark.parametrize("arguments", HOSTILE.values(), ids=HOSTILE)
async def test_hostile_arguments_are_told_to_the_model_in_few_words(
    name: str, arguments: str
) -> None:
    bus = ToldBus(Accepted(result={"value": "v"}))
    result = await run(runner(bus), name, arguments)
    assert result.status == "error"
    assert 0 < len(result.text) < 5_000
    assert bus.sent == []
