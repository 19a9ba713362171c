"""What the model is shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from libs.contracts.letta.enums import AgentType
from libs.contracts.shortened_text import NOTE, cut
from services.agent.domain.conversations.conversation import ConversationState, SystemPrompt
from services.agent.domain.prompts.model_context import (
    ShownMemory,
    rebuilt_prompt,
    shown_messages,
    shown_versions,
    system_prompt,
)
from services.agent.domain.prompts.system_prompt import COUNTED_MAX, ArchivalMemory, AttachedBlock
from tests.contract.examples import CALL, CALLED, CONFIG, SAID, SYSTEM, message
from tests.unit.given import NOW

HUMAN = AttachedBlock("block-1", 3, "human", "Name: Ada\nLikes tea", "Who", 2_000, read_only=False)


def compiled(**fields: Any) -> SystemPrompt:
    config = CONFIG.model_copy(update=fields)
    return system_prompt(config, ShownMemory([HUMAN]), previous_messages=0, at=NOW)


def test_the_prompt_has_the_blocks_as_they_are_now() -> None:
    content = compiled().content
    assert content.startswith("Be kind.")
    assert "<human>" in content
    assert "Name: Ada\nLikes tea" in content
    assert f"AGENT_ID: {CONFIG.id}" in content


def test_a_prompt_from_before_blocks_were_escaped_is_rebuilt() -> None:
    old = {name: 1 if name.startswith("system-") else version
           for name, version in shown_versions(CONFIG, ShownMemory([HUMAN])).items()}  # fmt: skip
    talk = ConversationState(agent_id=CONFIG.id, window=[SYSTEM], shown=old)
    assert rebuilt_prompt(talk, CONFIG, ShownMemory([HUMAN]), at=NOW) is not None


def test_an_agent_type_without_blocks_sees_none() -> None:
    assert "Ada" not in compiled(agent_type=AgentType.react_agent).content


def test_lines_are_numbered_for_anthropic_alone() -> None:
    claude = CONFIG.llm_config.model_copy(update={"model_endpoint_type": "anthropic"})
    assert "1→ Name: Ada" in compiled(llm_config=claude).content
    assert "→" not in compiled().content


def test_the_time_is_the_agents() -> None:
    assert "02:30:15 PM CEST" in compiled(timezone="Europe/Berlin").content


def test_the_prompt_is_rebuilt_when_something_that_it_shows_changed() -> None:
    shown = shown_versions(CONFIG, ShownMemory([HUMAN]))
    talk = ConversationState(agent_id=CONFIG.id, window=[SYSTEM, SAID], shown=shown)
    assert rebuilt_prompt(talk, CONFIG, ShownMemory([HUMAN]), at=NOW) is None
    edited = AttachedBlock("block-1", 4, "human", "Name: Grace", "Who", 2_000, read_only=False)
    for config, blocks in (
        (CONFIG, [edited]),
        (CONFIG, []),
        (CONFIG.model_copy(update={"system": "Be brief."}), [HUMAN]),
    ):
        rebuilt = rebuilt_prompt(talk, config, ShownMemory(blocks), at=NOW)
        assert rebuilt is not None
        assert rebuilt.shows == shown_versions(config, ShownMemory(blocks))
        shown_now = shown_messages(talk, rebuilt)
        assert [prompt_message.id for prompt_message in shown_now] == [SYSTEM.id, SAID.id]
        assert shown_now[0].content == rebuilt.content
    assert talk.window[0] == SYSTEM, "what is shown is not yet what is recorded"


def test_the_prompt_says_what_is_in_the_archives_and_is_rebuilt_only_when_that_changes() -> None:
    two = ArchivalMemory(2, ("art", "food"))
    prompt = system_prompt(CONFIG, ShownMemory([HUMAN], archival=two), previous_messages=0, at=NOW)
    told = "- Memories in archival memory: 2\n- Tags in archival memory: art, food"
    assert told in prompt.content
    talk = ConversationState(agent_id=CONFIG.id, window=[SYSTEM, SAID], shown=prompt.shows)
    assert rebuilt_prompt(talk, CONFIG, ShownMemory([HUMAN], archival=two), at=NOW) is None
    for other in (ArchivalMemory(3, two.tags), ArchivalMemory(2, ("art",)), ArchivalMemory()):
        rebuilt = rebuilt_prompt(talk, CONFIG, ShownMemory([HUMAN], archival=other), at=NOW)
        assert rebuilt is not None
        assert ("archival" in rebuilt.content) == (other.passages > 0)
    many, more = ArchivalMemory(COUNTED_MAX + 1), ArchivalMemory(COUNTED_MAX + 1)
    prompt = system_prompt(CONFIG, ShownMemory([HUMAN], archival=many), previous_messages=0, at=NOW)
    assert "archival memory: more than 1000" in prompt.content
    full = ConversationState(agent_id=CONFIG.id, window=[SYSTEM, SAID], shown=prompt.shows)
    assert rebuilt_prompt(full, CONFIG, ShownMemory([HUMAN], archival=more), at=NOW) is None


def test_a_block_says_which_other_agent_changed_it_last() -> None:
    assert "last_changed_by" not in compiled().content
    for agent, told in (("agent-other", True), (CONFIG.id, False)):
        block = replace(HUMAN, version=4, changed_by=agent)
        content = system_prompt(CONFIG, ShownMemory([block]), previous_messages=0, at=NOW).content
        assert ("- last_changed_by=another agent (agent-other)\n" in content) == told


def test_a_conversation_that_never_recorded_what_it_shows_is_rebuilt() -> None:
    assert (
        rebuilt_prompt(ConversationState(window=[SYSTEM]), CONFIG, ShownMemory([]), at=NOW)
        is not None
    )
    assert shown_messages(ConversationState(window=[SYSTEM]), None) == [SYSTEM]


def test_a_model_is_shown_so_much_of_a_result_as_its_window_has_room_for() -> None:
    result = message(9, role="tool", content="x" * 30_000, tool_call_id=CALL.id)
    said = message(8, role="user", content="y" * 30_000)
    talk = ConversationState(window=[SYSTEM, said, CALLED, result])
    for tokens, chars in ((1_000, 5_000), (20_000, 16_000), (128_000, 30_000)):
        shown = shown_messages(talk, None, window_tokens=tokens)
        note = "" if chars == 30_000 else NOTE.format(chars=30_000, limit=chars)
        assert shown[-1].content == "x" * chars + note
        assert shown[1].content == said.content, "only results are cut"
    assert talk.window[-1].content == "x" * 30_000, "the history is never cut"


def test_a_result_that_was_cut_before_says_how_long_it_was_at_first() -> None:
    once = cut("x" * 30_000, 9_000)
    assert once == "x" * 9_000 + NOTE.format(chars=30_000, limit=9_000)
    assert cut(once, 9_000) is once
    result = message(9, role="tool", content=once, tool_call_id=CALL.id)
    shown = shown_messages(
        ConversationState(window=[SYSTEM, CALLED, result]), None, window_tokens=1
    )
    assert shown[-1].content == "x" * 5_000 + NOTE.format(chars=30_000, limit=5_000)
