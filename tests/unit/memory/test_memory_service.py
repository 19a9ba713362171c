"""The memory service on the twins: commands in, events, rows and replies out."""

from __future__ import annotations

from libs.contracts.agent.agents import AgentDeleted
from libs.contracts.bus_messages import Accepted, Context, Rejected
from libs.contracts.memory.blocks import (
    CreateBlocks,
    DeleteBlock,
    EditBlock,
    InsertText,
    RewriteBlock,
    UpdateBlock,
)
from tests.contract.examples import AGENT, BLOCK, CAUSE, HUMAN, SHARED_BLOCK
from tests.unit.given import fact
from tests.unit.memory.memory_service import SHARED, Memory


async def test_blocks_are_made_all_or_none() -> None:
    memory = await Memory().start()
    bad = SHARED.model_copy(update={"label": ""})
    reply = await memory.ask(CreateBlocks(blocks=[HUMAN, bad]), "m-1")
    assert isinstance(reply, Rejected)
    assert memory.schema.committed == []
    assert await memory.ask(CreateBlocks(blocks=[HUMAN, SHARED]), "m-2") == Accepted()
    assert memory.rows().keys() == {BLOCK, SHARED_BLOCK}


async def test_a_command_that_comes_twice_has_the_effect_of_once() -> None:
    memory = await Memory().start()
    await memory.ask(CreateBlocks(blocks=[HUMAN]), "m-1")
    edit = EditBlock(block_id=BLOCK, edit=InsertText(new_text="Likes tea"), cause=CAUSE)
    first = await memory.ask(edit, "m-2")
    assert first == Accepted(result={"value": "Name: Ada\nLikes tea"})
    assert await memory.ask(edit, "m-2") == first
    assert memory.rows()[BLOCK]["fields"]["value"] == "Name: Ada\nLikes tea"
    assert memory.rows()[BLOCK]["version"] == 2
    [_, changed] = memory.schema.streams[BLOCK]
    assert changed.payload["cause"] == CAUSE.model_dump()


async def test_a_block_is_rewritten_unless_it_is_read_only_or_too_short() -> None:
    memory = await Memory().start()
    locked = SHARED.model_copy(update={"read_only": True})
    await memory.ask(CreateBlocks(blocks=[HUMAN, locked]), "m-1")
    rewrite = RewriteBlock(block_id=BLOCK, value="Name: Grace", cause=CAUSE)
    first = await memory.ask(rewrite, "m-2")
    assert first == Accepted(result={"value": "Name: Grace"})
    assert await memory.ask(rewrite, "m-2") == first
    assert (memory.rows()[BLOCK]["fields"]["value"], memory.rows()[BLOCK]["version"]) == (
        "Name: Grace",
        2,
    )
    [_, changed] = memory.schema.streams[BLOCK]
    assert changed.payload["cause"] == CAUSE.model_dump()
    same = await memory.ask(rewrite, "m-3")
    assert same == first, "a value that it has already is no event"
    assert len(memory.schema.streams[BLOCK]) == 2
    for block_id, value, words in (
        (SHARED_BLOCK, "x", "read-only"),
        (BLOCK, "x" * (HUMAN.limit + 1), "`limit`"),
        ("block-none", "x", "not found"),
    ):
        refused = await memory.ask(
            RewriteBlock(block_id=block_id, value=value, cause=CAUSE), f"m-{words}"
        )
        assert isinstance(refused, Rejected)
        assert words in refused.reason


async def test_an_update_and_a_deletion_reach_the_rows() -> None:
    memory = await Memory().start()
    await memory.ask(CreateBlocks(blocks=[HUMAN, SHARED]), "m-1")
    update = UpdateBlock(block_id=BLOCK, changes={"label": "me", "description": None})
    assert await memory.ask(update, "m-2") == Accepted()
    row = memory.rows()[BLOCK]
    assert (row["label"], row["fields"]["label"], row["fields"]["description"]) == (
        "me",
        "me",
        None,
    )
    assert await memory.ask(DeleteBlock(block_id=BLOCK), "m-3") == Accepted()
    assert memory.rows().keys() == {SHARED_BLOCK}
    again = await memory.ask(DeleteBlock(block_id=BLOCK), "m-4")
    assert BLOCK not in memory.repository.cache, "what is deleted takes no room"
    assert again == Rejected(code="not_found", reason=f"Block with id '{BLOCK}' not found")


async def test_a_block_gets_no_label_that_its_agent_has_on_another() -> None:
    memory = await Memory().start()
    await memory.ask(CreateBlocks(blocks=[HUMAN, SHARED]), "m-1")
    rename = UpdateBlock(block_id=SHARED_BLOCK, changes={"label": "human", "value": "x"})
    memory.attach(AGENT, BLOCK, SHARED_BLOCK)
    refused = await memory.ask(rename, "m-2")
    assert isinstance(refused, Rejected)
    assert refused.code == "conflict"
    assert all(said in refused.reason for said in ("`label`", AGENT, BLOCK, "'human'"))
    assert memory.rows()[SHARED_BLOCK]["label"] == "shared"
    same = UpdateBlock(block_id=SHARED_BLOCK, changes={"label": "shared", "value": "y"})
    assert await memory.ask(same, "m-3") == Accepted()
    memory.attach(AGENT, BLOCK)
    memory.attach("agent-2", SHARED_BLOCK)
    assert await memory.ask(rename, "m-4") == Accepted()
    assert memory.rows()[SHARED_BLOCK]["label"] == "human"


async def test_the_blocks_of_a_deleted_agent_go_unless_another_sees_them() -> None:
    memory = await Memory().start()
    await memory.ask(CreateBlocks(blocks=[HUMAN, SHARED]), "m-1")

    memory.attach("agent-2", SHARED_BLOCK)
    policies = memory.policies()
    deleted = fact(AgentDeleted, own_block_ids=[BLOCK, SHARED_BLOCK]).at(AGENT, 2)
    for _ in range(2):  # the log may tell it again
        await policies.agent_deleted(deleted, Context("e-1", actor="user-1"))
    assert memory.rows().keys() == {SHARED_BLOCK}
    [_, gone] = memory.schema.streams[BLOCK]
    assert gone.topic == "block.deleted"
    assert gone.metadata["actor"] == "user-1"
