"""The base tools have the recorded arguments, and prompts render to fixed texts."""

import re
from datetime import datetime

import pytest
from letta_client.types import Tool

from libs.contracts.letta import JsonObject
from libs.contracts.letta.blocks import BlockState
from libs.contracts.letta.enums import AgentType
from libs.contracts.letta.error_bodies import check_id
from libs.contracts.tools.base_tools.catalogue import BASE_TOOLS, base_tool_state
from libs.contracts.tools.base_tools.definition import tool_id
from services.agent.domain.agents.agent_types import PROFILES, default_tools
from services.agent.domain.agents.prompt_texts import LETTA_V1, compaction_prompt
from services.agent.domain.prompts.system_prompt import (
    ArchivalMemory,
    PromptMetadata,
    compile_system_prompt,
)
from tests.unit.letta.recordings import body, differences

COMPILED_AT = datetime.fromisoformat("2026-11-21T09:05:00+00:00")
HUMAN = BlockState(id="block-1", label="human", value="Name: Bob\nlikes tea", description="Who.")
RULES = BlockState(id="block-2", label="rules", value="", limit=10, read_only=True)


def recorded_tools() -> list[JsonObject]:
    tools: dict[str, JsonObject] = {}
    for name in ("agent_create", "agent_create_memgpt_v2"):
        agent = body(name)
        assert isinstance(agent, dict)
        assert isinstance(agent["tools"], list)
        tools |= {str(tool["name"]): tool for tool in agent["tools"] if isinstance(tool, dict)}
    return list(tools.values())


@pytest.mark.parametrize("recorded", recorded_tools(), ids=lambda tool: str(tool["name"]))
def test_a_base_tool_is_served_as_recorded(recorded: JsonObject) -> None:
    user = str(recorded["created_by_id"])
    state = base_tool_state(BASE_TOOLS[str(recorded["name"])], created_by_id=user)
    assert differences({**state, "id": recorded["id"]}, recorded) == []


@pytest.mark.parametrize("name", BASE_TOOLS)
def test_the_sdk_reads_every_base_tool(name: str) -> None:
    state = base_tool_state(BASE_TOOLS[name])
    assert Tool.model_validate(state).name == name
    assert check_id("tool", str(state["id"])) is None


def test_tool_ids_differ_and_never_change() -> None:
    assert len({tool_id(name) for name in BASE_TOOLS}) == len(BASE_TOOLS)
    assert tool_id("memory_insert") == "tool-a131306c-9a17-4054-8b38-568ba9c95104"


def test_every_default_tool_is_in_the_catalogue() -> None:
    for agent_type in AgentType:
        for sleeptime in (False, True):
            names = default_tools(
                agent_type, enable_sleeptime=sleeptime, include_multi_agent_tools=True
            )
            assert set(names) <= BASE_TOOLS.keys()


def test_an_agent_gets_the_recorded_default_tools() -> None:
    names = {"memory_replace", "memory_insert", "conversation_search"}
    assert set(default_tools(AgentType.letta_v1_agent)) == names
    assert set(default_tools(AgentType.memgpt_v2_agent)) == names | {"send_message"}
    assert default_tools(AgentType.letta_v1_agent, include_base_tools=False) == ()


def test_blocks_render_with_their_description_size_and_value() -> None:
    compiled = compile_system_prompt(
        "Be kind.\n{CORE_MEMORY}\nThe end.",
        [HUMAN, RULES],
        PromptMetadata(
            agent_id="agent-1",
            conversation_id=None,
            previous_message_count=42,
            recompiled_at=COMPILED_AT,
            archival=ArchivalMemory(3, ("a", "b")),
        ),
    )
    assert (
        compiled
        == """\
Be kind.
<memory_blocks>
Your memory holds these blocks:

<human>
<description>
Who.
</description>
<metadata>
- chars_current=19
- chars_limit=100000
</metadata>
<value>
Name: Bob
likes tea
</value>
</human>

<rules>
<description>

</description>
<metadata>
- read_only=true
- chars_current=0
- chars_limit=10
</metadata>
<value>

</value>
</rules>

</memory_blocks>

<memory_metadata>
- AGENT_ID: agent-1
- CONVERSATION_ID: default
- System prompt last recompiled: 2026-11-21 09:05:00 AM UTC+0000
- Messages in recall memory, before those you see: 42
- Memories in archival memory: 3
- Tags in archival memory: a, b
</memory_metadata>
The end."""
    )


def test_memory_is_appended_to_a_prompt_that_names_no_place() -> None:
    compiled = compile_system_prompt(
        "Be kind.",
        [],
        PromptMetadata(
            agent_id="agent-1",
            conversation_id="conv-1",
            previous_message_count=0,
            recompiled_at=COMPILED_AT,
        ),
    )
    assert compiled.startswith("Be kind.\n\n<memory_metadata>\n- AGENT_ID: agent-1\n")
    assert "- CONVERSATION_ID: conv-1\n" in compiled
    assert "<memory_blocks>" not in compiled
    assert "archival" not in compiled


def test_lines_are_numbered_on_request_with_a_warning() -> None:
    compiled = compile_system_prompt(
        "x",
        [HUMAN],
        PromptMetadata(
            agent_id="agent-1",
            conversation_id=None,
            previous_message_count=0,
            recompiled_at=COMPILED_AT,
        ),
        line_numbers=True,
    )
    assert "<value>\n1→ Name: Bob\n2→ likes tea\n</value>" in compiled
    assert "- chars_current=19\n" in compiled
    assert compiled.index("</metadata>") < compiled.index("<warning>") < compiled.index("<value>")


def test_a_block_that_quotes_the_place_is_not_filled_in_again() -> None:
    quoting = HUMAN.model_copy(update={"value": "{CORE_MEMORY}"})
    compiled = compile_system_prompt(
        "{CORE_MEMORY}",
        [quoting],
        PromptMetadata(
            agent_id="agent-1",
            conversation_id=None,
            previous_message_count=0,
            recompiled_at=COMPILED_AT,
        ),
    )
    assert compiled.count("<memory_blocks>") == 1


def test_memory_stands_in_the_first_place_alone() -> None:
    """A prompt that names it a thousand times is not a thousand times as long as the memory."""
    metadata = PromptMetadata(
        agent_id="agent-1",
        conversation_id=None,
        previous_message_count=0,
        recompiled_at=COMPILED_AT,
    )
    once, often = (
        compile_system_prompt("Be kind.\n" + "{CORE_MEMORY}" * places, [HUMAN], metadata)
        for places in (1, 1_000)
    )
    assert often == once


def test_every_agent_type_but_one_has_a_prompt() -> None:
    without = {kind for kind in AgentType if PROFILES[kind].system_prompt is None}
    assert without == {AgentType.split_thread_agent}
    assert 1200 < len(LETTA_V1) < 2000


def test_compaction_prompts_differ_by_mode() -> None:
    modes = ("all", "sliding_window", "self_compact_all", "self_compact_sliding_window")
    assert len({compaction_prompt(mode) for mode in modes}) == len(modes)  # type: ignore[arg-type]
    assert not re.search(r"\{|\}", compaction_prompt("all"))
