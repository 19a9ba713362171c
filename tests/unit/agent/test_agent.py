"""An agent: given what happened, when a command comes, then events or a refusal."""

from __future__ import annotations

from typing import Any

import pytest

from libs.contracts.agent.agents import (
    AgentAbandoned,
    AgentCreated,
    AgentDeleted,
    AgentUpdated,
    BlockAttached,
    BlockDetached,
)
from libs.contracts.bus_messages import CONFLICT, NOT_FOUND, UNPROCESSABLE, Rejected
from libs.contracts.tools.base_tools.catalogue import BASE_TOOLS
from libs.contracts.tools.base_tools.definition import tool_id
from services.agent.domain.agents.agent import AGENT_BLOCKS_MAX, Agent, AgentDesign, clash
from services.agent.domain.agents.agent_types import ANIMALS, QUALITIES, made_up_name
from services.agent.domain.tools.custom_tools import tools_of
from tests.contract.examples import AGENT, BLOCK, CONFIG, HUMAN, SHARED_BLOCK, TOOLS
from tests.unit.given import NOW, fact, given

TOOL_IDS = [tool_id(name) for name in TOOLS]
DESIGN = AgentDesign(
    config=CONFIG, tools=TOOLS, tags=["blue"], block_ids=[SHARED_BLOCK], new_blocks=[HUMAN]
)
CREATED = fact(
    AgentCreated,
    config=CONFIG,
    tools=TOOLS,
    tool_ids=TOOL_IDS,
    tags=["blue"],
    block_ids=[BLOCK, SHARED_BLOCK],
    own_block_ids=[BLOCK],
)
REFUSED = Rejected(code=UNPROCESSABLE, reason="`value` is too long")
ABANDONED = fact(AgentAbandoned, code=REFUSED.code, reason=REFUSED.reason)
DELETED = fact(AgentDeleted, own_block_ids=[BLOCK])


class TestTools:
    def test_what_was_recorded_with_names_alone_has_the_same_tools(self) -> None:
        payload = fact(
            AgentCreated,
            config=CONFIG,
            tools=TOOLS,
            tags=[],
            block_ids=[],
            own_block_ids=[],
        )
        past = given(Agent, AGENT, payload)
        assert past.aggregate.design is not None
        assert past.aggregate.design.tool_ids == TOOL_IDS
        snapshot = past.aggregate.state.model_dump(mode="json")
        del snapshot["design"]["tool_ids"]
        restored = Agent.blank(AGENT, version=1, state=snapshot)
        assert restored.design is not None
        assert restored.design.tool_ids == TOOL_IDS

    def test_tools_that_only_a_newer_server_knows_are_left_out(self) -> None:
        assert tools_of([tool_id("memory_insert"), tool_id("fly")]) == [BASE_TOOLS["memory_insert"]]


class TestCreation:
    def test_an_agent_sees_its_own_blocks_first(self) -> None:
        agent = given(Agent, AGENT)
        agent.when(lambda agent: agent.create(DESIGN, at=NOW)).then(CREATED)
        assert agent.aggregate.design is not None
        assert agent.aggregate.design.block_ids == [BLOCK, SHARED_BLOCK]

    @pytest.mark.parametrize(
        "past",
        [(CREATED,), (CREATED, DELETED), (ABANDONED,)],
        ids=["there", "deleted", "abandoned"],
    )
    def test_an_id_is_used_once(self, past: Any) -> None:
        again = given(Agent, AGENT, *past).when(lambda agent: agent.create(DESIGN, at=NOW))
        again.then_refused(CONFLICT, AGENT)

    def test_an_agent_that_is_given_up_remembers_why(self) -> None:
        past = given(Agent, AGENT)
        past.when(lambda agent: agent.abandon(REFUSED, at=NOW)).then(ABANDONED)
        assert past.aggregate.state.refused == REFUSED

    def test_an_agent_that_exists_cannot_be_given_up(self) -> None:
        with pytest.raises(AssertionError):
            given(Agent, AGENT, CREATED).aggregate.abandon(REFUSED, at=NOW)


class TestChange:
    def test_an_update_replaces_the_design(self) -> None:
        changed = DESIGN.model_copy(update={"tags": ["green"], "block_ids": []})
        past = given(Agent, AGENT, CREATED)
        past.when(lambda agent: agent.update(["tags"], changed, at=NOW)).then(
            fact(
                AgentUpdated,
                changed=["tags"],
                config=CONFIG,
                tools=TOOLS,
                tool_ids=TOOL_IDS,
                tags=["green"],
                block_ids=[],
            )
        )
        assert past.aggregate.design is not None
        assert past.aggregate.design.tags == ["green"]

    def test_a_deletion_names_the_blocks_that_were_made_with_the_agent(self) -> None:
        detached = fact(BlockDetached, block_id=BLOCK, block_ids=[SHARED_BLOCK])
        given(Agent, AGENT, CREATED, detached).when(lambda agent: agent.delete(at=NOW)).then(
            DELETED
        )

    @pytest.mark.parametrize(
        "past",
        [(), (CREATED, DELETED), (ABANDONED,)],
        ids=["never", "deleted", "abandoned"],
    )
    def test_an_agent_that_is_not_there_refuses_everything(self, past: Any) -> None:
        for decide in (
            lambda agent: agent.update([], DESIGN, at=NOW),
            lambda agent: agent.delete(at=NOW),
            lambda agent: agent.attach(BLOCK, {BLOCK: "human"}, at=NOW),
            lambda agent: agent.detach(BLOCK, at=NOW),
        ):
            given(Agent, AGENT, *past).when(decide).then_refused(
                NOT_FOUND, f"Agent with ID {AGENT} not found"
            )


LABELS = {BLOCK: "human", SHARED_BLOCK: "shared", "block-9": "pet", "block-8": "human"}


class TestBlocks:
    def test_an_attached_block_is_seen_last(self) -> None:
        given(Agent, AGENT, CREATED).when(
            lambda agent: agent.attach("block-9", LABELS, at=NOW)
        ).then(fact(BlockAttached, block_id="block-9", block_ids=[BLOCK, SHARED_BLOCK, "block-9"]))

    def test_attaching_what_is_seen_already_is_not_an_event(self) -> None:
        given(Agent, AGENT, CREATED).when(
            lambda agent: agent.attach(BLOCK, LABELS, at=NOW)
        ).then_nothing()

    def test_two_blocks_with_one_label_are_refused_by_name(self) -> None:
        given(Agent, AGENT, CREATED).when(
            lambda agent: agent.attach("block-8", LABELS, at=NOW)
        ).then_refused(CONFLICT, BLOCK, "block-8", "'human'")

    def test_a_block_that_is_gone_cannot_be_attached(self) -> None:
        given(Agent, AGENT, CREATED).when(
            lambda agent: agent.attach("block-7", LABELS, at=NOW)
        ).then_refused(NOT_FOUND, "block-7")

    def test_a_gone_block_among_those_seen_stops_nobody(self) -> None:
        labels = {"block-9": "pet", BLOCK: "human"}  # the shared one was just deleted
        given(Agent, AGENT, CREATED).when(
            lambda agent: agent.attach("block-9", labels, at=NOW)
        ).then(fact(BlockAttached, block_id="block-9", block_ids=[BLOCK, SHARED_BLOCK, "block-9"]))

    def test_an_agent_sees_a_bounded_number_of_blocks(self) -> None:
        many = [f"block-{n}" for n in range(AGENT_BLOCKS_MAX)]
        full = fact(AgentCreated, **{**CREATED.fields, "block_ids": many})
        labels = {label: label for label in [*many, "one more"]}
        given(Agent, AGENT, full).when(
            lambda agent: agent.attach("one more", labels, at=NOW)
        ).then_refused(UNPROCESSABLE, "at most 500 blocks")

    def test_a_detached_block_is_seen_no_more(self) -> None:
        given(Agent, AGENT, CREATED).when(lambda agent: agent.detach(BLOCK, at=NOW)).then(
            fact(BlockDetached, block_id=BLOCK, block_ids=[SHARED_BLOCK])
        )

    def test_detaching_what_is_not_seen_is_refused(self) -> None:
        given(Agent, AGENT, CREATED).when(
            lambda agent: agent.detach("block-9", at=NOW)
        ).then_refused(NOT_FOUND, "block-9", "is not attached")

    def test_labels_that_differ_do_not_clash(self) -> None:
        assert clash([BLOCK, SHARED_BLOCK, "block-9"], LABELS) is None


def test_a_made_up_name_follows_from_the_id_and_spreads() -> None:
    names = [made_up_name(f"agent-{n}") for n in range(500)]
    assert names == [made_up_name(f"agent-{n}") for n in range(500)]
    assert len(set(names)) > 300
    possible = {quality + animal for quality in QUALITIES for animal in ANIMALS}
    assert set(names) <= possible
