"""From V1 requests to designs of agents."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from libs.contracts.bus_messages import CONFLICT, INVALID, NOT_FOUND, UNPROCESSABLE, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.all_request_bodies import CreateAgent, UpdateAgent
from libs.contracts.letta.error_bodies import InvalidArgument
from libs.contracts.state_size_limits import AGENT_BYTES_MAX
from libs.contracts.tools.base_tools.catalogue import SERVER_TOOLS
from libs.contracts.tools.base_tools.definition import tool_id
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.agents.agent_configuration import (
    Facts,
    created_design,
    named_tools,
    updated_design,
)
from services.agent.domain.agents.agent_types import PROFILES, made_up_name
from services.agent.domain.tools.custom_tools import CustomTool, held_tools
from tests.contract.examples import AGENT, BLOCK, CONFIG, EMBEDDING, LLM, SHARED_BLOCK, TOOLS
from tests.unit.given import LATER, NOW

FACTS = Facts(LLM, EMBEDDING, {SHARED_BLOCK: "shared"}, "user-1", NOW)
ODD = {"odd": 1}
CHILD_WITH_WRONG_ARGUMENT = {
    "type": "constrain_child_tools",
    "tool_name": "conversation_search",
    "children": ["memory_insert"],
    "child_arg_nodes": [{"name": "memory_insert", "args": {"insert_line": "first"}}],
}
OLD = AgentDesign(config=CONFIG, tools=TOOLS, tags=["blue"], block_ids=[BLOCK])


def created(facts: Facts = FACTS, **fields: Any) -> AgentDesign | Rejected:
    return created_design(AGENT, CreateAgent.model_validate(fields), facts)


def design(**fields: Any) -> AgentDesign:
    made = created(**fields)
    assert isinstance(made, AgentDesign), made
    return made


def updated(facts: Facts | None = None, **fields: Any) -> tuple[list[str], AgentDesign] | Rejected:
    facts = facts or Facts(None, None, {BLOCK: "human", SHARED_BLOCK: "shared"}, "user-2", LATER)
    return updated_design(OLD, UpdateAgent.model_validate(fields), facts)


def changed(facts: Facts | None = None, **fields: Any) -> AgentDesign:
    result = updated(facts, **fields)
    assert not isinstance(result, Rejected), result
    names, after = result
    assert names == sorted(fields)
    return after


class TestCreation:
    @pytest.mark.parametrize("name", sorted(SERVER_TOOLS))
    def test_a_name_of_ours_is_never_a_clients_tool(self, name: str) -> None:
        """A foreign tool may have got the name in a version before this one."""
        ours, foreign = SERVER_TOOLS[name], CustomTool(id=derived_id("tool", "foreign"), name=name)
        facts = dataclasses.replace(FACTS, custom=[foreign])
        chosen = [{"tools": [name]}, {"tool_ids": [foreign.id, ours.id]}]
        for fields in chosen:
            made = design(facts=facts, include_base_tools=False, **fields)
            assert dict(zip(made.tools, made.tool_ids, strict=True))[name] == ours.id
        assert held_tools([foreign.id, ours.id], [foreign]) == [ours]
        assert named_tools(CreateAgent(tools=[name])) == ([], [])

    def test_a_workflow_agent_shows_its_model_nothing_of_earlier_runs(self) -> None:
        for wanted in (True, False):
            made = design(agent_type="workflow_agent", message_buffer_autoclear=wanted)
            assert made.config.message_buffer_autoclear
        assert not design(agent_type="react_agent").config.message_buffer_autoclear

    def test_who_chooses_all_tools_gets_the_rules_of_those_that_are_base_tools(self) -> None:
        tools = {"tools": ["send_message", "conversation_search"]}

        def rules(**fields: Any) -> list[tuple[str, str]]:
            made = design(**tools, **fields).config.tool_rules
            return sorted((str(rule["tool_name"]), str(rule["type"])) for rule in made)

        assert rules() == []
        chosen = rules(include_base_tools=False)
        assert chosen == [("conversation_search", "continue_loop"), ("send_message", "exit_loop")]
        assert rules(include_base_tools=False, include_base_tool_rules=False) == []

    def test_a_request_that_names_only_a_model_gets_every_default(self) -> None:
        made = design()
        config = made.config
        assert (config.id, config.name) == (AGENT, made_up_name(AGENT))
        assert config.system == PROFILES[config.agent_type].system_prompt
        assert config.llm_config.handle == "openai/gpt-4o-mini"
        assert config.embedding_config == EMBEDDING
        assert config.timezone == "UTC"
        assert (config.created_by_id, config.last_updated_by_id) == ("user-1", "user-1")
        assert (config.created_at, config.updated_at) == (NOW, NOW)
        assert config.parallel_tool_calls is True
        assert made.tools == ["conversation_search", "memory_insert", "memory_replace"]
        assert (made.tags, made.block_ids, made.new_blocks) == ([], [], [])

    def test_what_the_request_says_is_what_the_agent_is(self) -> None:
        made = design(
            name="Ada's helper",
            system="Be brief.",
            description="Helps",
            metadata={"a": [1, {"b": None}]},
            timezone="Europe/Berlin",
            tags=["b", "a", "b"],
            hidden=True,
            embedding_chunk_size=99,
            max_files_open=3,
            per_file_view_window_char_limit=100,
            include_base_tools=False,
            tools=["conversation_search"],
            tool_ids=[tool_id("memory_insert")],
            block_ids=[SHARED_BLOCK, SHARED_BLOCK],
            parallel_tool_calls=True,
        )
        config = made.config
        assert (config.name, config.system, config.description) == (
            "Ada's helper",
            "Be brief.",
            "Helps",
        )
        assert config.metadata == {"a": [1, {"b": None}]}
        assert config.timezone == "Europe/Berlin"
        assert config.hidden is True
        assert config.embedding_config == EMBEDDING.model_copy(update={"embedding_chunk_size": 99})
        assert (config.max_files_open, config.per_file_view_window_char_limit) == (3, 100)
        assert config.llm_config.parallel_tool_calls is True
        assert made.tools == ["conversation_search", "memory_insert"]
        assert made.tags == ["a", "b"]
        assert made.block_ids == [SHARED_BLOCK]

    def test_its_blocks_have_ids_that_follow_from_its_own(self) -> None:
        made = design(
            memory_blocks=[{"label": "human", "value": "Ada"}, {"label": "x", "value": ""}]
        )
        assert [new_block.id for new_block in made.new_blocks] == [
            derived_id("block", AGENT, "0"),
            derived_id("block", AGENT, "1"),
        ]
        assert [new_block.value for new_block in made.new_blocks] == ["Ada", ""]
        assert made.new_blocks[0].description is not None
        assert made.new_blocks[1].description is None

    @pytest.mark.parametrize(
        ("fields", "code", "words"),
        [
            ({"timezone": "Mars/Olympus"}, INVALID, "'Mars/Olympus'"),
            ({"timezone": "../etc"}, INVALID, "IANA"),
            ({"agent_type": "split_thread_agent"}, INVALID, "`system` prompt of its own"),
            ({"tools": ["fly"]}, NOT_FOUND, "no tool named fly"),
            ({"tool_ids": [tool_id("fly")]}, NOT_FOUND, tool_id("fly")),
            (
                {
                    "enable_sleeptime": True,
                    "memory_blocks": [{"label": "memory_persona", "value": ""}],
                },
                CONFLICT,
                "`enable_sleeptime`: the sleeptime agent has a block `memory_persona` of its own",
            ),
            (
                {"tool_rules": [{"type": "run_first", "tool_name": "send_message", "args": ODD}]},
                INVALID,
                "`tool_rules`, entry 0: its arguments do not fit the tool `send_message`: the"
                " tool has no argument `odd`",
            ),
            (
                {"tool_rules": [CHILD_WITH_WRONG_ARGUMENT]},
                INVALID,
                "`tool_rules`, entry 0: its arguments do not fit the tool `memory_insert`:"
                " `insert_line`",
            ),
            (
                {"tool_rules": [{"type": "exit_loop", "tool_name": "x" * 70_000}]},
                UNPROCESSABLE,
                "`tool_rules`: at most 65536 bytes",
            ),
            ({"secrets": {"KEY": "v"}}, INVALID, "`secrets`: values are sealed before"),
            (
                {"secrets": {f"KEY_{n}": f"sealed:{'x' * 90_000}" for n in range(3)}},
                UNPROCESSABLE,
                "`secrets`: at most 262144 bytes",
            ),
            ({"block_ids": [BLOCK]}, NOT_FOUND, BLOCK),
            (
                {"memory_blocks": [{"label": "a", "value": ""}, {"label": "a", "value": ""}]},
                CONFLICT,
                "label 'a'",
            ),
            (
                {"memory_blocks": [{"label": "shared", "value": ""}], "block_ids": [SHARED_BLOCK]},
                CONFLICT,
                "label 'shared'",
            ),
            (
                {"memory_blocks": [{"label": str(n), "value": ""} for n in range(501)]},
                UNPROCESSABLE,
                "at most 500",
            ),
        ],
    )
    def test_what_cannot_be_is_refused(self, fields: Any, code: str, words: str) -> None:
        refused = created(**fields)
        assert isinstance(refused, Rejected)
        assert refused.code == code
        assert words in refused.reason

    def test_an_agent_needs_a_model(self) -> None:
        with pytest.raises(InvalidArgument, match="model"):
            created(Facts(None, None, {}, "user-1", NOW))


class TestUpdate:
    def test_only_the_fields_of_the_request_change(self) -> None:
        after = changed(name="LoudHeron", description=None, tags=["z", "y", "z"])
        assert after.config == CONFIG.model_copy(
            update={"name": "LoudHeron", "updated_at": LATER, "last_updated_by_id": "user-2"}
        )
        assert (after.tools, after.tags, after.block_ids) == (TOOLS, ["y", "z"], [BLOCK])

    def test_null_clears_what_may_be_empty_and_leaves_the_rest(self) -> None:
        after = changed(metadata=None, name=None, system=None, timezone=None)
        assert after.config.metadata is None
        assert (after.config.name, after.config.system) == (CONFIG.name, CONFIG.system)
        assert after.config.timezone == "UTC"

    def test_an_empty_time_zone_is_utc_as_at_creation(self) -> None:
        assert changed(timezone="").config.timezone == "UTC"

    def test_another_model_comes_with_its_config(self) -> None:
        other = LLM.model_copy(update={"handle": "openai/gpt-4.1", "model": "gpt-4.1"})
        facts = Facts(other, EMBEDDING, {}, "user-2", LATER)
        after = changed(facts, model="openai/gpt-4.1", embedding="openai/x")
        assert after.config.llm_config.handle == "openai/gpt-4.1"
        assert after.config.embedding_config == EMBEDDING

    def test_settings_of_the_model_change_alone(self) -> None:
        after = changed(context_window_limit=9_000, max_tokens=7, parallel_tool_calls=True)
        llm = after.config.llm_config
        assert (llm.context_window, llm.max_tokens, llm.parallel_tool_calls) == (9_000, 7, True)
        assert after.config.parallel_tool_calls is True

    def test_tools_and_blocks_are_replaced_as_a_whole(self) -> None:
        after = changed(tool_ids=[tool_id("memory_insert")], block_ids=[SHARED_BLOCK])
        assert after.tools == ["memory_insert"]
        assert after.block_ids == [SHARED_BLOCK]
        assert changed(block_ids=[], tool_ids=[]).block_ids == []

    @pytest.mark.parametrize(
        ("fields", "code"),
        [
            ({"timezone": "Mars/Olympus"}, INVALID),
            ({"tool_ids": [tool_id("fly")]}, NOT_FOUND),
            ({"block_ids": ["block-99999999-9999-4999-8999-999999999999"]}, NOT_FOUND),
        ],
    )
    def test_what_cannot_be_is_refused(self, fields: Any, code: str) -> None:
        refused = updated(**fields)
        assert isinstance(refused, Rejected)
        assert refused.code == code

    def test_the_time_of_the_change_is_given(self) -> None:
        assert changed(name="x").config.updated_at - CONFIG.created_at == timedelta(seconds=2)


class TestSize:
    """What an agent is stands whole in each event that changes it."""

    def test_an_agent_that_is_too_large_is_not_made(self) -> None:
        refused = created(system="x" * 600_000, metadata={"a": "x" * 500_000})
        assert isinstance(refused, Rejected)
        assert (refused.code, "shorten `system`" in refused.reason) == (UNPROCESSABLE, True)

    def test_its_tags_count_too(self) -> None:
        tags = [f"{number:0>499}" for number in range(1_000)]
        refused = created(tags=tags, system="x" * 300_000, metadata={"a": "x" * 300_000})
        assert isinstance(refused, Rejected)
        assert "shorten `tags`" in refused.reason

    def test_an_agent_does_not_become_too_large_by_steps(self) -> None:
        old = changed(system="x" * 600_000)
        request = UpdateAgent(metadata={"a": "x" * 500_000})
        refused = updated_design(old, request, Facts(None, None, {}, "user-2", LATER))
        assert isinstance(refused, Rejected)
        assert f"at most {AGENT_BYTES_MAX} bytes" in refused.reason

    def test_an_agent_that_was_too_large_before_may_become_smaller_and_no_larger(self) -> None:
        config = CONFIG.model_copy(update={"system": "x" * 2 * AGENT_BYTES_MAX})
        old = AgentDesign(config=config, tools=TOOLS, tags=["blue"], block_ids=[BLOCK])
        facts = Facts(None, None, {}, "user-2", LATER)
        smaller = updated_design(old, UpdateAgent(system="x" * 1_000_000), facts)
        assert not isinstance(smaller, Rejected)
        larger = updated_design(old, UpdateAgent(description="d" * 1_000), facts)
        assert isinstance(larger, Rejected)
        assert "shorten `system`" in larger.reason
