"""The system message of an agent, with its memory in the place that its prompt names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from libs.contracts.agent.runs import ClientSkill
from libs.contracts.prompt_escaping import escape_tags, quote_label, tags
from services.agent.domain.agents.prompt_texts import MEMORY_PLACE

# Who has none of these is not told: nothing is read for its prompt, and nothing changes in it.
ARCHIVAL_TOOL_NAMES = frozenset(
    {"archival_memory_insert", "archival_memory_search", "search_memory", "store_memories"}
)
# More passages are not counted, so a prompt changes no more once there are so many.
COUNTED_MAX = 1_000
TAGS_SHOWN_MAX = 100


@dataclass(frozen=True, slots=True)
class ArchivalMemory:
    """The passages of an agent's archives, of which no more than `COUNTED_MAX` + 1 are counted, and
    the tags of the newest."""

    passages: int = 0
    tags: tuple[str, ...] = ()

    @property
    def count_text(self) -> str:
        """The number of passages as a prompt says it, which stops counting at a limit."""
        return f"more than {COUNTED_MAX}" if self.passages > COUNTED_MAX else str(self.passages)


NO_ARCHIVES = ArchivalMemory()


LINE_NUMBER_WARNING = (
    "# The numbers and arrows ('1→') before the lines only show positions. Leave them out of "
    "whatever you pass to a memory tool."
)


@dataclass(frozen=True, slots=True)
class AttachedBlock:
    """A memory block as an agent sees it now; `changed_by` is the agent that changed it last, if a
    tool call did."""

    id: str
    version: int
    label: str
    value: str
    description: str | None
    limit: int
    read_only: bool
    changed_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMetadata:
    """The facts that a system message states about itself and about unseen messages.
    `recompiled_at` is shown in its own time zone, so pass it in the agent's."""

    agent_id: str
    conversation_id: str | None
    previous_message_count: int
    recompiled_at: datetime
    archival: ArchivalMemory = NO_ARCHIVES

    def render(self) -> str:
        """The metadata as a model reads it."""
        lines = [
            f"- AGENT_ID: {self.agent_id}",
            f"- CONVERSATION_ID: {self.conversation_id or 'default'}",
            f"- System prompt last recompiled: {self.recompiled_at:%Y-%m-%d %I:%M:%S %p %Z%z}",
            f"- Messages in recall memory, before those you see: {self.previous_message_count}",
        ]
        if self.archival.passages:
            lines.append(f"- Memories in archival memory: {self.archival.count_text}")
        if self.archival.tags:
            names = ", ".join(map(quote_label, self.archival.tags))
            lines.append(f"- Tags in archival memory: {names}")
        return "\n".join(["<memory_metadata>", *lines, "</memory_metadata>"])


def compile_system_prompt(
    system: str,
    blocks: Sequence[AttachedBlock],
    metadata: PromptMetadata,
    *,
    line_numbers: bool = False,
    changed_by: Mapping[str, str] | None = None,
    tool_rules: Sequence[str] = (),
    directories: str = "",
) -> str:
    """The system message: the agent's prompt with its memory in the first place that it names.

    What users and models wrote into blocks is data: it forges no tag (see `prompt_escaping`).
    `system` is the agent's own prompt, and goes in as it is. `changed_by` names the other agents
    that changed blocks last, by the labels of these.
    """
    memory = metadata.render()
    if directories:
        memory = f"{directories}\n\n{memory}"
    if tool_rules:
        rules = "\n".join(f"- {escape_tags(rule)}" for rule in tool_rules)
        memory = f"<tool_usage_rules>\n{rules}\n</tool_usage_rules>\n\n{memory}"
    if blocks:
        rendered = _render_blocks(blocks, changed_by or {}, line_numbers=line_numbers)
        memory = f"{rendered}\n\n{memory}"
    if MEMORY_PLACE not in system:
        system = f"{system}\n\n{MEMORY_PLACE}"
    before, _, behind = system.partition(MEMORY_PLACE)
    return f"{before}{memory}{behind.replace(MEMORY_PLACE, '')}"


def _render_blocks(
    blocks: Sequence[AttachedBlock], changed_by: Mapping[str, str], *, line_numbers: bool
) -> str:
    rendered = "\n\n".join(
        _render_block(block, changed_by.get(block.label, ""), line_numbers=line_numbers)
        for block in blocks
    )
    return f"<memory_blocks>\nYour memory holds these blocks:\n\n{rendered}\n\n</memory_blocks>"


def _render_block(block: AttachedBlock, changed_by: str, *, line_numbers: bool) -> str:
    opening, closing = tags(block.label) if block.label else ("<block>", "</block>")
    value = escape_tags(block.value)
    if line_numbers and value:
        numbered = enumerate(value.split("\n"), start=1)
        value = "\n".join(f"{number}→ {line}" for number, line in numbered)
    return "\n".join(
        [
            opening,
            f"<description>\n{escape_tags(block.description or '')}\n</description>",
            "<metadata>",
            *(["- read_only=true"] if block.read_only else []),
            f"- chars_current={len(block.value)}",
            f"- chars_limit={block.limit}",
            *([f"- last_changed_by=another agent ({changed_by})"] if changed_by else []),
            "</metadata>",
            *([f"<warning>\n{LINE_NUMBER_WARNING}\n</warning>"] if line_numbers else []),
            f"<value>\n{value}\n</value>",
            closing,
        ]
    )


def skills_note(skills: Iterable[ClientSkill]) -> str:
    """The section on the client's skills, for one request; empty without any."""
    lines = [
        f'- name="{quote_label(skill.name)}" location="{quote_label(skill.location)}": '
        f"{escape_tags(skill.description)}"
        for skill in skills
    ]
    if not lines:
        return ""
    listed = "\n".join(lines)
    return (
        "\n\n<available_skills>\nThe environment that you talk from has these skills:\n"
        f"{listed}\n</available_skills>"
    )
