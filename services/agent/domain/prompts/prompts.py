"""The server's own prompts, and how an agent's system prompt is put together."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from libs.contracts.agent.approvals import ClientSkill
from libs.contracts.letta.model_configs import CompactionMode
from libs.contracts.prompt_escaping import escaped, quoted, tags
from services.agent.domain.agents.archival_memory_metadata import NO_ARCHIVES, ArchivalMemory

MEMORY_PLACE = "{CORE_MEMORY}"

LINE_NUMBER_WARNING = (
    "# The numbers and arrows ('1→') before the lines only show positions. Leave them out of "
    "whatever you pass to a memory tool."
)

_MEMORY = """\
<memory>
You are a stateful agent: you outlive any single conversation, because you keep a memory.

Memory blocks are always in front of you, in the <memory_blocks> section of this prompt. Each \
block has a label, a description of what belongs in it, a size limit in characters, and a value. \
The description is your guide to when the block matters and how to change it. Treat what the \
blocks say about you and about the people you talk to as your own knowledge.

The blocks only change if you change them, with the memory tools you were given. When you learn \
something that will still matter later (a name, a preference, a decision, a correction), write \
it into the block that fits, before you forget it. Keep blocks short and orderly: replace what is \
outdated instead of piling up, and never write into a block marked read-only. An edit may not \
show up in this prompt at once, but it has been saved.

Older messages drop out of your view as the conversation grows. They are not lost: if you have a \
search tool, use it rather than guess at what was said.
</memory>
"""

LETTA_V1 = f"""\
{_MEMORY}
<turns>
In every step you may think, call tools, write to the user, or do several of these. After a tool \
call you see its result and go on. A reply without any tool call ends your turn and hands control \
back to the user, so first finish what you can finish, and do not announce a step that you then \
do not take. If a tool fails, read the error and try another way before you give up.
</turns>

Be truthful about what you know, what you remember, and what you merely suppose.
"""

SEND_MESSAGE = f"""\
{_MEMORY}
<turns>
Every step of yours is a tool call. What you write outside of one is your private thought, which \
nobody reads. The user only sees what you pass to `send_message`. Set `request_heartbeat` to true \
if you want another step after a tool has run; otherwise your turn ends with it.
</turns>

Be truthful about what you know, what you remember, and what you merely suppose.
"""

SLEEPTIME = f"""\
{_MEMORY}
<turns>
You work in the background, on the memory that you share with another agent. You are shown what \
was said since you last ran. Nobody reads your replies: your work is the edits you make. Merge \
what is new into the blocks, resolve contradictions in favour of what was said last, write dates \
instead of words such as "today", and do not invent anything. When every block is up to date, \
call `memory_finish_edits` if you have it, or reply without a tool call.
</turns>
"""

REACT = """\
You solve tasks step by step. In every step, think about what is missing, then call the tool that \
gets you closer. Read each result before you go on; if a tool fails, try another way. When you \
have what was asked for, answer with `send_message` if you have that tool, or else in plain text.
"""


class Block(Protocol):
    """What a prompt shows of a memory block."""

    @property
    def label(self) -> str | None: ...
    @property
    def value(self) -> str: ...
    @property
    def description(self) -> str | None: ...
    @property
    def limit(self) -> int: ...
    @property
    def read_only(self) -> bool: ...


def compaction_prompt(mode: CompactionMode) -> str:
    """What the model that summarises a conversation is told."""
    own = mode.startswith("self_compact")
    scope = (
        "the messages above, which are about to leave your view"
        if own
        else "the messages below, which are about to leave the agent's view"
    )
    rest = " Newer messages stay and will follow your summary." if "sliding_window" in mode else ""
    answer = " Do not answer the messages and do not call any tool." if own else ""
    return f"""\
Summarise {scope}.{rest}{answer} The agent will go on from your summary alone, so keep:
1. the goals and requests of the user, and how far each has come;
2. what was done, decided, and found out, and why;
3. names, dates, numbers, paths, links and other identifiers, letter for letter;
4. what went wrong and how it was put right;
5. what remains to be done next;
6. words by which details that you left out could be searched for.
If the messages hold an earlier summary, carry over what still matters. Write in the first \
person, as the agent, in at most 400 words, and write nothing but the summary.
"""


def compile_system_prompt(
    system: str,
    blocks: Sequence[Block],
    *,
    agent_id: str,
    conversation_id: str | None,
    previous_message_count: int,
    recompiled_at: datetime,
    line_numbers: bool = False,
    archival: ArchivalMemory = NO_ARCHIVES,
    changed_by: Mapping[str, str] | None = None,
    tool_rules: Sequence[str] = (),
    directories: str = "",
) -> str:
    """The system message: the agent's prompt with its memory in the place that it names.

    `recompiled_at` is shown in its own time zone, so pass it in the agent's. What users and models
    wrote into blocks is data: it forges no tag (see `prompt_escaping`). `system` is the agent's own
    prompt, and goes in as it is. `changed_by` names the other agents that changed blocks last, by
    the labels of these.
    """
    metadata = [
        f"- AGENT_ID: {agent_id}",
        f"- CONVERSATION_ID: {conversation_id or 'default'}",
        f"- System prompt last recompiled: {recompiled_at:%Y-%m-%d %I:%M:%S %p %Z%z}",
        f"- Messages in recall memory, before those you see: {previous_message_count}",
    ]
    if archival.passages:
        metadata.append(f"- Memories in archival memory: {archival.counted}")
    if archival.tags:
        metadata.append(f"- Tags in archival memory: {', '.join(map(quoted, archival.tags))}")
    memory = "\n".join(["<memory_metadata>", *metadata, "</memory_metadata>"])
    if directories:
        memory = f"{directories}\n\n{memory}"
    if tool_rules:
        rules = "\n".join(f"- {escaped(rule)}" for rule in tool_rules)
        memory = f"<tool_usage_rules>\n{rules}\n</tool_usage_rules>\n\n{memory}"
    if blocks:
        rendered = _render_blocks(blocks, changed_by or {}, line_numbers=line_numbers)
        memory = f"{rendered}\n\n{memory}"
    if MEMORY_PLACE not in system:
        system = f"{system}\n\n{MEMORY_PLACE}"
    return system.replace(MEMORY_PLACE, memory)


def _render_blocks(
    blocks: Sequence[Block], changed_by: Mapping[str, str], *, line_numbers: bool
) -> str:
    rendered = "\n\n".join(
        _render_block(block, changed_by.get(block.label or "", ""), line_numbers=line_numbers)
        for block in blocks
    )
    return f"<memory_blocks>\nYour memory holds these blocks:\n\n{rendered}\n\n</memory_blocks>"


def _render_block(block: Block, changed_by: str, *, line_numbers: bool) -> str:
    opening, closing = tags(block.label) if block.label else ("<block>", "</block>")
    value = escaped(block.value)
    if line_numbers and value:
        numbered = enumerate(value.split("\n"), start=1)
        value = "\n".join(f"{number}→ {line}" for number, line in numbered)
    return "\n".join(
        [
            opening,
            f"<description>\n{escaped(block.description or '')}\n</description>",
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
    """What a system prompt says about the client's skills, for one request; empty without any."""
    lines = [
        f'- name="{quoted(one.name)}" location="{quoted(one.location)}": {escaped(one.description)}'
        for one in skills
    ]
    if not lines:
        return ""
    listed = "\n".join(lines)
    return (
        "\n\n<available_skills>\nThe environment that you talk from has these skills:\n"
        f"{listed}\n</available_skills>"
    )
