"""Every tool that edits memory blocks, called in an in-memory world with a real memory service:
what the block is afterwards, and what the model is told where nothing was changed."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from libs.contracts.agent.conversations import ToolCall
from libs.contracts.bus_messages import Accepted, Context
from libs.contracts.letta.blocks import BlockState
from libs.contracts.memory.blocks import CreateBlocks
from services.agent.adapters.block_file_tools import COMMANDS
from services.agent.domain.agents.agent import Agent
from services.agent.domain.runs.step_results import ToolResult
from tests.contract.examples import AGENT, BLOCK, HUMAN, SHARED_BLOCK, STEP
from tests.unit.agent.world import Process, World

CONTEXT = Context("m-1", org="org-1", actor="user-1")
TOOLS = [
    "core_memory_append",
    "core_memory_replace",
    "memory",
    "memory_apply_patch",
    "memory_replace",
    "memory_insert",
    "memory_rethink",
    "rethink_memory",
    "memory_finish_edits",
    "rethink_user_memory",
    "finish_rethinking_memory",
]
TEA = "Likes tea.\nLikes tea.\nLives in Bern."
MEGABYTE = "x" * 1_000_000
NUMBERED = "leave out the line numbers"

# The tool, what it is called with, and the value of the block 'human' afterwards.
EDITS: list[tuple[str, dict[str, Any], str]] = [
    ("core_memory_append", {"label": "human", "content": "Sings."}, f"{TEA}\nSings."),
    ("core_memory_append", {"label": "human", "content": ""}, f"{TEA}\n"),
    (
        "core_memory_replace",
        {"label": "human", "old_content": "tea", "new_content": "mate"},
        TEA.replace("tea", "mate"),
    ),
    (
        "core_memory_replace",
        {"label": "human", "old_content": "Likes tea.\n", "new_content": ""},
        "Lives in Bern.",
    ),
    (
        "memory_replace",
        {"label": "human", "old_string": "Bern", "new_string": "Basel"},
        TEA.replace("Bern", "Basel"),
    ),
    ("memory_replace", {"label": "human", "old_string": TEA, "new_string": ""}, ""),
    ("memory_insert", {"label": "human", "new_string": "Sings."}, f"{TEA}\nSings."),
    ("memory_insert", {"label": "human", "new_string": "A\nB", "insert_line": 0}, f"A\nB\n{TEA}"),
    (
        "memory_insert",
        {"label": "human", "new_string": "A", "insert_line": 2},
        "Likes tea.\nLikes tea.\nA\nLives in Bern.",
    ),
    ("memory_rethink", {"label": "human", "new_memory": "New."}, "New."),
    ("rethink_memory", {"target_block_label": "human", "new_memory": "New."}, "New."),
    ("rethink_user_memory", {"new_memory": "New."}, "New."),
    (
        "memory",
        {"command": "str_replace", "path": "/memories/human", "old_string": "Bern",
         "new_string": "Basel"},
        TEA.replace("Bern", "Basel"),
    ),
    (
        "memory",
        {"command": "insert", "path": "/memories/human", "insert_line": 3, "insert_text": "C"},
        f"{TEA}\nC",
    ),
    (
        "memory_apply_patch",
        {"label": "human", "patch": "@@\n-Lives in Bern.\n+Lives in Basel."},
        TEA.replace("Bern", "Basel"),
    ),
    ("memory_finish_edits", {}, TEA),
    ("finish_rethinking_memory", {}, TEA),
]  # fmt: skip

# The tool, what it is called with, and words of what the model is told; nothing is changed.
REFUSALS: list[tuple[str, dict[str, Any], str]] = [
    ("core_memory_replace", {"label": "human", "old_content": "milk", "new_content": ""}, "`milk`"),
    ("core_memory_replace", {"label": "human", "old_content": "", "new_content": "x"}, "``"),
    ("core_memory_replace", {"label": "pet", "old_content": "a", "new_content": "b"}, "Yours are:"),
    ("memory_replace", {"label": "human", "old_string": "tea", "new_string": "x"}, "lines [1, 2]"),
    ("memory_replace", {"label": "human", "old_string": "", "new_string": "x"}, "``"),
    ("memory_replace", {"label": "human", "old_string": "1→ Likes", "new_string": "x"}, NUMBERED),
    ("memory_replace", {"label": "human", "old_string": "Bern", "new_string": "1→ x"}, NUMBERED),
    ("memory_insert", {"label": "pet", "new_string": "x"}, "Yours are: human, read-only"),
    ("memory_insert", {"label": "human", "new_string": "x", "insert_line": 4}, "use 0 to 3"),
    ("memory_insert", {"label": "human", "new_string": "a\n2→ b"}, NUMBERED),
    ("memory_rethink", {"label": "pet", "new_memory": "x"}, "no memory block labelled 'pet'"),
    ("memory_rethink", {"label": "human", "new_memory": "1→ x"}, NUMBERED),
    ("rethink_memory", {"target_block_label": "pet", "new_memory": "x"}, "Yours are:"),
    (
        "memory",
        {"command": "str_replace", "path": "human", "old_string": "milk", "new_string": "x"},
        "`milk`",
    ),
    ("memory", {"command": "create", "path": "human"}, "'human' already"),
    ("memory", {"command": "delete", "path": "pet"}, "no memory block labelled 'pet'"),
    ("memory", {"command": "view", "path": "human"}, ", ".join(COMMANDS)),
    ("memory_apply_patch", {"label": "human", "patch": "@@\n-milk\n+x"}, "do not stand"),
    ("memory_apply_patch", {"label": "human", "patch": ""}, "changes nothing"),
]

# Each tool that changes a block, with a text of the test's choice.
WITH_TEXT: list[tuple[str, dict[str, Any], str]] = [
    ("core_memory_append", {"label": "human"}, "content"),
    ("core_memory_replace", {"label": "human", "old_content": "Bern"}, "new_content"),
    ("memory_replace", {"label": "human", "old_string": "Bern"}, "new_string"),
    ("memory_insert", {"label": "human"}, "new_string"),
    ("memory_rethink", {"label": "human"}, "new_memory"),
    ("rethink_memory", {"target_block_label": "human"}, "new_memory"),
    ("rethink_user_memory", {}, "new_memory"),
    ("memory", {"command": "str_replace", "path": "human", "old_string": "Bern"}, "new_string"),
    ("memory", {"command": "insert", "path": "human"}, "insert_text"),
]


class Agents:
    """An agent with two blocks, one of them read-only, and a process that calls its tools."""

    def __init__(self, world: World, process: Process) -> None:
        self.world = world
        self.process = process

    async def call(self, tool: str, arguments: object, call_id: str = "call_1") -> ToolResult:
        agent = await self.process.repository.work(CONTEXT).load(Agent, AGENT)
        assert agent.design is not None
        call = ToolCall(id=call_id, name=tool, arguments=json.dumps(arguments))
        return await self.process.tools.run(call, agent.design, "run-1", STEP, CONTEXT)

    async def memory(self) -> dict[str, str]:
        """The values of the agent's blocks by their labels."""
        agent = self.world.row("agents", AGENT)
        blocks = await self.world.queries.seen_blocks("org-1", agent["block_ids"])
        labels = [block.label for block in blocks]
        assert len({*labels}) == len(labels), "no label is there twice"
        return {block.label: block.value for block in blocks}

    def blocks(self) -> int:
        """How many blocks there are at all."""
        return len(self.world.queries.rows("blocks", "memory"))


@pytest.fixture
async def agents() -> Agents:
    world = World()
    await world.start_memory()
    process = world.process("agent-1")
    await process.bus.serve("agent", process.shell.answer)
    locked = BlockState(id=SHARED_BLOCK, label="read-only", value="Fixed.", read_only=True)
    human = HUMAN.model_copy(update={"value": TEA, "limit": 5_000})
    made = await process.bus.request(CreateBlocks(blocks=[human, locked]), CONTEXT)
    assert made == Accepted()
    await world.agent(block_ids=[BLOCK, SHARED_BLOCK], tools=TOOLS)
    return Agents(world, process)


def names(cases: list[tuple[str, dict[str, Any], str]]) -> list[str]:
    return [f"{number}-{case[0]}" for number, case in enumerate(cases)]


@pytest.mark.parametrize(("tool", "arguments", "after"), EDITS, ids=names(EDITS))
async def test_a_tool_edits_the_block(
    agents: Agents, tool: str, arguments: dict[str, Any], after: str
) -> None:
    """MEM-10 to MEM-13: text is replaced, inserted at a line, rewritten; edits are finished."""
    result = await agents.call(tool, arguments)
    assert result.status == "success", result.text
    assert await agents.memory() == {"human": after, "read-only": "Fixed."}
    if "finish" not in tool:
        assert result.text == after
    again = await agents.call(tool, arguments)
    assert (again, (await agents.memory())["human"]) == (result, after), "a call counts once"


@pytest.mark.parametrize(("tool", "arguments", "words"), REFUSALS, ids=names(REFUSALS))
async def test_what_cannot_be_is_told_with_what_to_do_instead(
    agents: Agents, tool: str, arguments: dict[str, Any], words: str
) -> None:
    """MEM-10, MEM-19: a missing old text, label or line is an error that the model can act on."""
    result = await agents.call(tool, arguments)
    assert result.status == "error"
    assert words in result.text
    assert await agents.memory() == {"human": TEA, "read-only": "Fixed."}


@pytest.mark.parametrize(("tool", "arguments", "name"), WITH_TEXT, ids=names(WITH_TEXT))
async def test_a_block_keeps_its_limit_and_a_megabyte_changes_nothing(
    agents: Agents, tool: str, arguments: dict[str, Any], name: str
) -> None:
    """MEM-01, MEM-19: too much text is refused in words, whichever tool brings it."""
    for text, words in (("x" * 5_001, "`limit` of 5000"), (MEGABYTE, "")):
        result = await agents.call(tool, {**arguments, name: text}, call_id=f"call-{len(text)}")
        assert result.status == "error"
        assert words in result.text
        assert len(result.text) < 1_000
        assert (await agents.memory())["human"] == TEA


@pytest.mark.parametrize(("tool", "arguments", "name"), WITH_TEXT, ids=names(WITH_TEXT))
async def test_what_is_missing_or_of_the_wrong_kind_is_named(
    agents: Agents, tool: str, arguments: dict[str, Any], name: str
) -> None:
    """MEM-19: missing parameters."""
    wrong = [({**arguments, name: 7}, name)]
    if (tool, name) != ("memory", "new_string"):  # without it, the text is taken out
        wrong.append((arguments, name))
    for asked, word in wrong:
        result = await agents.call(tool, asked)
        assert result.status == "error"
        assert word in result.text
    assert (await agents.memory())["human"] == TEA


@pytest.mark.parametrize(("tool", "arguments", "name"), WITH_TEXT, ids=names(WITH_TEXT))
async def test_a_read_only_block_stays_as_it_is(
    agents: Agents, tool: str, arguments: dict[str, Any], name: str
) -> None:
    at = next(
        (
            parameter
            for parameter in ("label", "target_block_label", "path")
            if parameter in arguments
        ),
        None,
    )
    if at is None:
        return  # it is about the block 'human' always
    result = await agents.call(tool, {**arguments, at: "read-only", name: "x"})
    assert result.status == "error"
    assert "read-only" in result.text
    assert (await agents.memory())["read-only"] == "Fixed."


async def test_a_block_that_is_missing_is_made_by_an_append(agents: Agents) -> None:
    """MEM-09: and the same call again makes and appends nothing more."""
    for _ in range(2):
        result = await agents.call("core_memory_append", {"label": "pet", "content": "A cat."})
        assert result == ToolResult("success", "A cat.")
    more = {"label": "pet", "content": "Named Mia."}
    await agents.call("core_memory_append", more, call_id="call_2")
    assert (await agents.memory())["pet"] == "A cat.\nNamed Mia."
    assert agents.blocks() == 3


async def test_appends_at_the_same_time_make_one_block_with_every_line(agents: Agents) -> None:
    """MEM-09: no block twice under a race, and no line lost."""
    told = await asyncio.gather(
        *(
            agents.call("core_memory_append", {"label": "pet", "content": str(n)}, f"call-{n}")
            for n in range(20)
        )
    )
    assert {result.status for result in told} == {"success"}
    assert sorted((await agents.memory())["pet"].split("\n"), key=int) == [*map(str, range(20))]
    assert agents.blocks() == 3


async def test_the_users_block_is_made_when_it_is_rethought(agents: Agents) -> None:
    await agents.call("memory", {"command": "delete", "path": "human"})
    assert "human" not in await agents.memory()
    await agents.call("rethink_user_memory", {"new_memory": "Sings."}, call_id="call_2")
    assert (await agents.memory())["human"] == "Sings."


async def test_blocks_come_go_and_change_their_names_as_files(agents: Agents) -> None:
    """Every subcommand of `memory`, and the sections of a patch."""
    steps: list[dict[str, Any]] = [
        {
            "command": "create",
            "path": "/memories/plans",
            "file_text": "Tea",
            "description": "To do",
        },
        {"command": "insert", "path": "/memories/plans", "insert_text": "Walk"},
        {"command": "str_replace", "path": "/memories/plans", "old_string": "Tea"},
        {"command": "rename", "old_path": "/memories/plans", "new_path": "/memories/done"},
        {"command": "rename", "path": "/memories/done", "description": "What is done"},
    ]
    for number, asked in enumerate(steps):
        assert (await agents.call("memory", asked, f"call-{number}")).status == "success"
    assert (await agents.memory())["done"] == "\nWalk"
    patch = (
        "*** Begin Patch\n*** Add Block: pet\nDescription: The pet\n+A cat.\n"
        "*** Update Block: done\n@@\n-Walk\n+Swim\n*** Move to: past\n"
        "*** Delete Block: human\n*** End Patch"
    )
    result = await agents.call("memory_apply_patch", {"label": "", "patch": patch}, "call-p")
    assert result.status == "success", result.text
    assert await agents.memory() == {"read-only": "Fixed.", "past": "\nSwim", "pet": "A cat."}
    rows = agents.world.queries.rows("blocks", "memory")
    told = {row["label"]: row["fields"]["description"] for row in rows}
    assert (told["pet"], told["past"]) == ("The pet", "What is done")
