"""The tools that treat blocks as files: what each call sends, and what the model is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from libs.contracts.agent.agents import AttachBlock, DetachBlock
from libs.contracts.agent.conversations import ToolCall
from libs.contracts.bus_messages import Accepted, Command, Context, Rejected
from libs.contracts.memory.blocks import (
    Cause,
    CreateBlocks,
    DeleteBlock,
    EditBlock,
    InsertText,
    PatchBlock,
    RenameBlock,
    ReplaceLines,
    ReplaceText,
)
from services.agent.adapters.tool_router import ToolRouter
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.prompts.system_prompt import AttachedBlock
from services.agent.domain.runs.step_results import ToolResult
from services.agent.domain.tools.block_patches import BlockPatch, block_patches
from tests.contract.examples import AGENT, BLOCK, CONFIG, HUMAN, RUN, SHARED_BLOCK, STEP
from tests.unit.agent.driven_runs import frozen
from tests.unit.agent.memory_tools import CONTEXT, ToldBus, ToldQueries, runner
from tests.unit.agent.model_replies import calls, words
from tests.unit.agent.world import World

DESIGN = AgentDesign(
    config=CONFIG,
    tools=["memory", "memory_apply_patch"],
    tags=[],
    block_ids=[BLOCK, SHARED_BLOCK],
)
DONE = Accepted(result={"value": "new value"})
NO = Rejected(code="unprocessable", reason="That cannot be.")


class ToldBlocks(ToldQueries):
    read_only = False

    async def seen_blocks(self, org: str, block_ids: list[str]) -> list[AttachedBlock]:
        return [
            AttachedBlock(block_id, 1, "human", "x", None, 5, self.read_only)
            for block_id in block_ids
        ]


async def run(
    name: str, arguments: Any, *answers: Any, queries: ToldBlocks | None = None
) -> tuple[ToolResult, list[Command]]:
    bus = ToldBus(*(answers or (DONE,)))
    tools: ToolRouter = runner(bus, queries or ToldBlocks())
    call = ToolCall(id="call_1", name=name, arguments=json.dumps(arguments))
    result = await tools.run(call, DESIGN, RUN, STEP, CONTEXT)
    names = [context.message_id for _, context in bus.sent]
    assert len({*names}) == len(names), "each command of a call has a name of its own"
    again = ToldBus(*(answers or (DONE,)))
    await runner(again, queries or ToldBlocks()).run(call, DESIGN, RUN, STEP, CONTEXT)
    assert again.sent == bus.sent, "the same call is the same commands"
    return result, [command for command, _ in bus.sent]


def cause(tool: str = "memory") -> Cause:
    return Cause(agent_id=AGENT, run_id=RUN, tool_call_id="call_1", tool=tool)


class TestMemory:
    @pytest.mark.parametrize("path", ["/memories/human", "memories/human", "human", "/human"])
    async def test_a_text_is_replaced(self, path: str) -> None:
        asked = {"command": "str_replace", "path": path, "old_string": "a", "new_string": "b"}
        result, sent = await run("memory", asked)
        assert result == ToolResult("success", "new value")
        edit = ReplaceText(old_text="a", new_text="b")
        assert sent == [EditBlock(block_id=BLOCK, edit=edit, cause=cause())]

    async def test_lines_are_inserted_where_it_says_or_at_the_end(self) -> None:
        asked = {"command": "insert", "path": "/memories/shared", "insert_text": "b"}
        for more, line in (({}, -1), ({"insert_line": 0}, 0)):
            _, [command] = await run("memory", asked | more)
            assert isinstance(command, EditBlock)
            assert command.block_id == SHARED_BLOCK
            assert command.edit == InsertText(new_text="b", after_line=line)

    async def test_a_block_is_made_and_shown_to_the_agent(self) -> None:
        asked = {
            "command": "create",
            "path": "/memories/plans",
            "file_text": "Tea\x00 at four",
            "description": "What is planned",
        }
        result, [made, attached] = await run("memory", asked)
        assert result.status == "success"
        assert isinstance(made, CreateBlocks)
        [block] = made.blocks
        assert (block.label, block.value) == ("plans", "Tea at four")
        assert block.description == "What is planned"
        assert attached == AttachBlock(agent_id=AGENT, block_id=block.id)

    async def test_a_block_that_cannot_be_shown_is_not_left_behind(self) -> None:
        asked = {"command": "create", "path": "plans"}
        result, [made, _, undone] = await run("memory", asked, DONE, NO, DONE)
        assert result == ToolResult("error", NO.reason)
        assert isinstance(made, CreateBlocks)
        assert undone == DeleteBlock(block_id=made.blocks[0].id)

    async def test_a_label_is_not_given_twice(self) -> None:
        result, sent = await run("memory", {"command": "create", "path": "human"})
        assert (result.status, sent) == ("error", [])
        assert "'human' already" in result.text
        asked = {"command": "rename", "old_path": "human", "new_path": "shared"}
        result, sent = await run("memory", asked)
        assert (result.status, sent) == ("error", [])

    async def test_a_block_is_taken_out_of_memory_unless_it_is_read_only(self) -> None:
        asked = {"command": "delete", "path": "/memories/human"}
        result, sent = await run("memory", asked)
        assert result.status == "success"
        assert sent == [DetachBlock(agent_id=AGENT, block_id=BLOCK)]
        queries = ToldBlocks()
        queries.read_only = True
        result, sent = await run("memory", asked, queries=queries)
        assert (result.status, sent) == ("error", [])
        assert "read-only" in result.text

    @pytest.mark.parametrize(
        ("asked", "label", "description"),
        [
            ({"old_path": "/memories/human", "new_path": "/memories/ada"}, "ada", None),
            ({"path": "/memories/human", "description": "Who"}, None, "Who"),
            # It has the new label already: where this call gave it, its answer is the first one.
            ({"old_path": "gone", "new_path": "human"}, "human", None),
        ],
    )
    async def test_a_block_gets_another_label_or_description(
        self, asked: Any, label: str | None, description: str | None
    ) -> None:
        result, [command] = await run("memory", {"command": "rename", **asked})
        assert result.status == "success"
        old = str(asked.get("old_path") or asked["path"]).removeprefix("/memories/")
        assert command == RenameBlock(
            block_id=BLOCK, old_label=old, label=label, description=description, cause=cause()
        )

    @pytest.mark.parametrize(
        ("asked", "words"),
        [
            ({"command": "view", "path": "human"}, "one of create, str_replace, insert"),
            ({"command": "create"}, "needs `path`"),
            ({"command": "create", "path": "/memories/"}, "needs `path`"),
            ({"command": "insert", "path": "human"}, "needs `insert_text`"),
            ({"command": "str_replace", "path": "human"}, "needs `old_string`"),
            ({"command": "rename", "new_path": "x"}, "needs `old_path`"),
            ({"command": "rename", "path": "human"}, "`new_path` or `description`"),
            ({"command": "delete", "path": "pet"}, "Yours are: human, shared"),
            ({"command": "rename", "old_path": "pet", "new_path": "x"}, "labelled 'pet'"),
            ({}, "command: Field required"),
        ],
    )
    async def test_what_cannot_be_done_tells_the_model_what_to_do(
        self, asked: Any, words: str
    ) -> None:
        result, sent = await run("memory", asked)
        assert (result.status, sent) == ("error", [])
        assert words in result.text


DIFF = """--- human
+++ human
@@ -1,2 +1,2 @@
 Name: Ada
-Likes tea
+Likes coffee
@@
+The end"""
SECTIONS = """*** Begin Patch
*** Add Block: plans
+One
+
+Two
*** Update Block: human
*** Move to: ada
@@
-Name: Ada
+Name: Grace

*** Delete Block: shared
*** End Patch"""
CHANGES = [
    ReplaceLines(old_lines=["Name: Ada", "Likes tea"], new_lines=["Name: Ada", "Likes coffee"]),
    ReplaceLines(old_lines=[], new_lines=["The end"]),
]


class TestPatches:
    def test_a_plain_diff_is_for_the_block_that_is_named(self) -> None:
        assert block_patches("human", DIFF) == [BlockPatch("Update", "human", changes=CHANGES)]

    def test_sections_say_which_blocks_they_are_for(self) -> None:
        grace = ReplaceLines(old_lines=["Name: Ada"], new_lines=["Name: Grace"])
        assert block_patches("", SECTIONS) == [
            BlockPatch("Add", "plans", value="One\n\nTwo"),
            BlockPatch("Update", "human", new_label="ada", changes=[grace]),
            BlockPatch("Delete", "shared"),
        ]

    @pytest.mark.parametrize(
        ("label", "patch", "words"),
        [
            ("", DIFF, "`label` says which block"),
            ("human", "Likes tea", "Line 1 begins with none of"),
            ("human", "@@\n Name: Ada", "changes nothing"),
            ("", "*** Add Block: x\n+a\nb", "without '+' before it: 'b'"),
            ("", "*** Delete Block: ", "Line 1 names no block"),
            ("", "*** Delete Block: a\n" * 21, "at most 20"),
            ("human", "@@\n-a\n" * 201, "at most 200"),
        ],
    )
    def test_what_is_no_patch_says_why(self, label: str, patch: str, words: str) -> None:
        problem = block_patches(label, patch)
        assert isinstance(problem, str)
        assert words in problem

    async def test_a_diff_is_one_change_of_its_block(self) -> None:
        result, sent = await run("memory_apply_patch", {"label": "human", "patch": DIFF})
        assert result == ToolResult("success", "new value")
        tool = "memory_apply_patch"
        assert sent == [PatchBlock(block_id=BLOCK, changes=CHANGES, cause=cause(tool))]

    async def test_sections_are_done_one_after_the_other(self) -> None:
        result, sent = await run("memory_apply_patch", {"label": "", "patch": SECTIONS})
        assert result == ToolResult("success", "Done: Add plans, Update human, Delete shared.")
        kinds = [type(command) for command in sent]
        assert kinds == [CreateBlocks, AttachBlock, PatchBlock, RenameBlock, DetachBlock]

    async def test_a_section_that_is_refused_ends_it_and_says_what_was_done(self) -> None:
        result, sent = await run(
            "memory_apply_patch", {"label": "", "patch": SECTIONS}, DONE, DONE, NO
        )
        assert result == ToolResult(
            "error",
            "Update human: That cannot be. Done before it: Add plans. Not tried after it: 1 of the"
            " patch.",
        )
        assert len(sent) == 3


PATCH = "*** Add Block: notes\n+One\n*** Update Block: human\n@@\n-Name: Ada\n+Name: Grace"


class TestTakenOver:
    """A process dies between what a call did and the record of its result: another one carries the
    call out again."""

    @pytest.mark.parametrize(
        ("tool", "arguments", "values"),
        [
            pytest.param(
                "memory",
                {"command": "create", "path": "plans", "file_text": "Tea"},
                {"human": "Name: Ada", "plans": "Tea"},
                id="create",
            ),
            pytest.param(
                "memory",
                {"command": "insert", "path": "human", "insert_text": "Likes tea"},
                {"human": "Name: Ada\nLikes tea"},
                id="insert",
            ),
            pytest.param(
                "memory",
                {"command": "rename", "old_path": "human", "new_path": "ada"},
                {"ada": "Name: Ada"},
                id="rename",
            ),
            pytest.param(
                "memory_apply_patch",
                {"label": "", "patch": PATCH},
                {"human": "Name: Grace", "notes": "One"},
                id="patch",
            ),
        ],
    )
    async def test_a_call_has_the_effect_of_once_and_succeeds(
        self, tool: str, arguments: dict[str, Any], values: dict[str, str]
    ) -> None:
        world = World()
        await world.start_memory()
        setup = world.process("setup")
        await setup.bus.request(CreateBlocks(blocks=[HUMAN]), Context("blocks", org="org-1"))
        await world.agent(block_ids=[BLOCK], tools=[tool])
        call = ToolCall(id="call_1", name=tool, arguments=json.dumps(arguments))
        first, second = world.process("p-1", calls(call)), world.process("p-2", words())
        await second.bus.serve("agent", second.shell.answer)
        ran = first.memory_tools.runners[tool]
        stand_still, reached, let_go = frozen()

        async def run_and_stand_still(calling: Any) -> Any:
            result = await ran(calling)
            await stand_still()
            return result

        first.memory_tools.runners[tool] = run_and_stand_still
        await first.say("run-1")
        await reached.wait()
        world.lease_expires()
        await second.drivers.sweep()
        await second.idle()
        let_go.set()
        await first.idle()

        result = second.model.asked[0].messages[-1]
        assert (result.role, result.tool_status) == ("tool", "success"), result.content
        blocks = world.database.schema("memory").rows("blocks")
        assert {block["label"]: block["fields"]["value"] for block in blocks} == values
        attached = world.row("agents", AGENT)["block_ids"]
        assert sorted(block["id"] for block in blocks) == sorted(attached)
