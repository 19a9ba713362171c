"""Identities and projects in memory: commands in; events, rows and replies out."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from libs.bus.command_dispatcher import CommandDispatcher
from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.bus.ports import IncomingCommand
from libs.contracts.agent.agents import DeleteAgent, UpdateAgent
from libs.contracts.api.attachments import (
    ATTACHED_MAX,
    AttachIdentity,
    DetachIdentity,
    ReplaceIdentities,
)
from libs.contracts.api.identities import (
    CreateIdentity,
    DeleteIdentity,
    UpdateIdentity,
    UpsertIdentity,
)
from libs.contracts.api.projects import (
    CASCADED_MAX,
    AddAgents,
    CreateProject,
    DeleteProject,
    EmptyProject,
)
from libs.contracts.bus_messages import (
    COMMANDS,
    CONFLICT,
    NOT_FOUND,
    UNPROCESSABLE,
    Accepted,
    Command,
    Context,
    Rejected,
)
from libs.contracts.groups.sleeptime import EndSleeptime
from libs.contracts.letta.identities import IdentityState, IdentityType
from libs.contracts.letta.projects import ProjectState, slug_of
from libs.contracts.memory.blocks import UpdateBlock
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.unit_of_work import Repository
from services.api.adapters.agents.project_queries import LeftByProject
from services.api.domain.identity import IDENTITIES_MAX
from services.api.domain.project import PROJECTS_MAX, PROJECTS_OF_AGENT_MAX, SETTLED_SECONDS
from services.api.handlers.attachments import AttachmentHandlers
from services.api.handlers.identities import IdentityHandlers
from services.api.handlers.ports import HandlerPorts
from services.api.handlers.projects import ProjectHandlers
from services.api.policies.deleted_projects import ClearDeletedProjects
from services.api.projections import project
from tests.clock_and_ids import CountingIds, ManualClock

ORG = "org-1"
AGENT, OTHER, BLOCK = "agent-1", "agent-2", "block-1"


class World:
    """The api's aggregates beside agents and blocks that exist, and what else is asked of them."""

    def __init__(self) -> None:
        database = InMemoryDatabase(lambda: 0.0)
        self.schema = database.schema("api")
        store = InMemoryEventStore(database, "api", "api-1")
        self.clock = ManualClock()
        network = InMemoryNetwork()
        self.bus, self.to_others = InMemoryBus(network), InMemoryBus(network)
        unused: Any = None
        ports = HandlerPorts(
            clock=self.clock,
            attachments=self,
            projects=self,
            templates=unused,
            deployments=unused,
        )
        attachments = AttachmentHandlers(ports)
        table = {
            **attachments.table(),
            **IdentityHandlers(ports, attachments).table(),
            **ProjectHandlers(ports, attachments).table(),
        }
        self.shell = CommandDispatcher(Repository(store, "api", project), table)
        self.there = {AGENT, OTHER, BLOCK}
        self.besides = 0
        self.only_in_project: list[str] = []
        self.left: list[LeftByProject] = []
        self.managers: dict[str, str] = {}
        self.commands: list[Command] = []
        self.asked = 0

    async def start(self) -> World:
        await self.bus.serve("api", self.shell.answer)
        for service in ("agent", "memory", "groups"):
            await self.bus.serve(service, self.answer_elsewhere)
        return self

    async def answer_elsewhere(self, incoming: IncomingCommand) -> Accepted | Rejected:
        self.commands.append(COMMANDS[incoming.name].model_validate_json(incoming.payload))
        return Accepted()

    async def tell(self, command: Command, name: str = "") -> Accepted | Rejected:
        self.asked += 1
        context = Context(name or f"m-{self.asked}", org=ORG)
        return await self.to_others.request(command, context)

    async def identity(self, number: int, **fields: Any) -> str:
        """A new identity."""
        wanted = identity_state(number)
        done = await self.tell(CreateIdentity(identity=wanted, **fields))
        assert isinstance(done, Accepted), done
        return wanted.id

    def pairs(self) -> set[tuple[str, str]]:
        """What is attached to what."""
        rows: list[Any] = list(self.schema.rows("attachments"))
        return {(row["owner_id"], row["target_id"]) for row in rows}

    async def first_missing(self, org: str, target_ids: Sequence[str]) -> str | None:
        return next((each for each in target_ids if each not in self.there), None)

    async def first_missing_identity(self, org: str, identity_ids: Sequence[str]) -> str | None:
        raise AssertionError("requests ask it, not handlers")

    async def identities_of(self, org: str, target_id: str) -> list[str]:
        return sorted(owner for owner, target in self.pairs() if target == target_id)

    async def targets_of(self, org: str, identity_id: str, prefix: str, limit: int) -> list[str]:
        found = sorted(target for owner, target in self.pairs() if owner == identity_id)
        return [target for target in found if target.startswith(prefix)][:limit]

    async def count_identities(self, org: str) -> int:
        return self.besides

    async def count_projects(self, org: str) -> int:
        return self.besides

    async def projects_of(self, org: str, agent_id: str) -> int:
        return self.besides

    async def agents_only_in(self, org: str, project_id: str, limit: int) -> list[str]:
        return self.only_in_project[:limit]

    async def left_by_projects(self, settled_seconds: float) -> list[LeftByProject]:
        return self.left

    async def manager_of_sleeptime(self, org: str, agent_id: str) -> str | None:
        return self.managers.get(agent_id)


def identity_state(number: int, key: str = "", name: str = "Ada") -> IdentityState:
    return IdentityState(
        id=f"identity-{number}",
        identifier_key=key or f"key-{number}",
        name=name,
        identity_type=IdentityType.user,
    )


@pytest.fixture
async def world() -> World:
    return await World().start()


def refusal_of(reply: Accepted | Rejected) -> str:
    assert isinstance(reply, Rejected), reply
    return reply.code


class TestIdentities:
    async def test_a_command_that_comes_twice_has_one_effect(self, world: World) -> None:
        command = CreateIdentity(identity=identity_state(1), agent_ids=[AGENT, AGENT])
        first, second = await world.tell(command, "c-1"), await world.tell(command, "c-1")
        assert isinstance(first, Accepted)
        assert first == second
        assert world.pairs() == {("identity-1", AGENT)}
        again = await world.tell(command)
        assert refusal_of(again) == CONFLICT
        assert isinstance(again, Rejected)
        assert again.details == {"owner_id": "identity-1"}

    async def test_of_two_with_one_key_in_one_moment_one_is_refused(self, world: World) -> None:
        wanted = [CreateIdentity(identity=identity_state(each, key="ada")) for each in (1, 2)]
        replies = await asyncio.gather(*map(world.tell, wanted))
        assert sorted(reply.outcome for reply in replies) == ["accepted", "rejected"]
        assert len(world.schema.rows("identities")) == 1

    async def test_two_upserts_of_a_key_in_one_moment_make_one_identity(self, world: World) -> None:
        wanted = [UpsertIdentity(identity=identity_state(each, key="ada")) for each in (1, 2)]
        replies = await asyncio.gather(*map(world.tell, wanted))
        assert all(isinstance(reply, Accepted) for reply in replies)
        assert len({str(reply.result) for reply in replies if isinstance(reply, Accepted)}) == 1
        assert len(world.schema.rows("identities")) == 1

    async def test_a_change_that_is_refused_changes_nothing(self, world: World) -> None:
        await world.identity(1)
        await world.identity(2)
        for wrong, code in (
            (UpdateIdentity(identity_id="identity-1", name="x", agent_ids=["agent-9"]), NOT_FOUND),
            (UpdateIdentity(identity_id="identity-1", name="x", identifier_key="key-2"), CONFLICT),
            (UpdateIdentity(identity_id="identity-9", name="x"), NOT_FOUND),
        ):
            assert refusal_of(await world.tell(wrong)) == code
        rows: list[Any] = list(world.schema.rows("identities"))
        assert {row["name"] for row in rows} == {"Ada"}

    async def test_the_key_of_a_deleted_identity_is_free(self, world: World) -> None:
        await world.identity(1)
        assert isinstance(await world.tell(DeleteIdentity(identity_id="identity-1")), Accepted)
        again = UpsertIdentity(identity=identity_state(2, key="key-1"))
        reply = await world.tell(again)
        assert isinstance(reply, Accepted)
        assert reply.result == {"identity_id": "identity-2"}
        assert refusal_of(await world.tell(DeleteIdentity(identity_id="identity-1"))) == NOT_FOUND

    async def test_there_are_so_many_at_most(self, world: World) -> None:
        world.besides = IDENTITIES_MAX
        refused = await world.tell(CreateIdentity(identity=identity_state(1)))
        assert refusal_of(refused) == UNPROCESSABLE


class TestAttachments:
    async def test_attaching_and_detaching_twice_is_once(self, world: World) -> None:
        await world.identity(1)
        for command, there in (
            (AttachIdentity(identity_id="identity-1", target_id=AGENT), True),
            (DetachIdentity(identity_id="identity-1", target_id=AGENT), False),
            (AttachIdentity(identity_id="identity-1", target_id=AGENT), True),
        ):
            for _ in range(2):
                assert isinstance(await world.tell(command), Accepted)
                assert (("identity-1", AGENT) in world.pairs()) is there

    async def test_one_more_than_an_agent_may_have_is_refused(self, world: World) -> None:
        for number in range(ATTACHED_MAX + 1):
            await world.identity(number)
        most = [f"identity-{number}" for number in range(ATTACHED_MAX)]
        full = ReplaceIdentities(target_id=AGENT, identity_ids=most)
        assert isinstance(await world.tell(full), Accepted)
        last = f"identity-{ATTACHED_MAX}"
        for command in (
            AttachIdentity(identity_id=last, target_id=AGENT),
            UpdateIdentity(identity_id=last, agent_ids=[AGENT]),
            ReplaceIdentities(target_id=AGENT, identity_ids=[*most, last]),
        ):
            assert refusal_of(await world.tell(command)) == UNPROCESSABLE
        other = ReplaceIdentities(target_id=AGENT, identity_ids=[*most[1:], last])
        assert isinstance(await world.tell(other), Accepted)
        assert len(world.pairs()) == ATTACHED_MAX

    async def test_replacing_by_one_that_is_gone_changes_nothing(self, world: World) -> None:
        await world.identity(1, agent_ids=[AGENT])
        wanted = ReplaceIdentities(target_id=AGENT, identity_ids=["identity-9"])
        assert refusal_of(await world.tell(wanted)) == NOT_FOUND
        assert world.pairs() == {("identity-1", AGENT)}


class TestProjects:
    async def made(self, world: World, number: int = 1) -> str:
        state = ProjectState(id=f"project-{number}", name=f"Voyage {number}")
        assert isinstance(await world.tell(CreateProject(project=state)), Accepted)
        return state.id

    async def test_agents_that_go_with_a_project_are_chosen_once(self, world: World) -> None:
        project_id = await self.made(world)
        world.only_in_project = [AGENT]
        delete = DeleteProject(project_id=project_id, cascade=True, confirm_name="Voyage 1")
        assert (
            refusal_of(await world.tell(delete.model_copy(update={"confirm_name": None})))
            == UNPROCESSABLE
        )
        reply = await world.tell(delete)
        assert isinstance(reply, Accepted)
        assert reply.result == {"agents": 1}
        [removal] = world.schema.rows("project_removals")
        assert removal["agent_ids"] == [AGENT]
        await self.made(world, 2)

    async def test_without_cascade_no_agent_goes(self, world: World) -> None:
        project_id = await self.made(world)
        world.only_in_project = [AGENT]
        reply = await world.tell(DeleteProject(project_id=project_id, confirm_name="Voyage 1"))
        assert isinstance(reply, Accepted)
        assert reply.result == {"agents": 0}

    async def test_more_agents_than_may_go_at_once_are_refused(self, world: World) -> None:
        project_id = await self.made(world)
        world.only_in_project = [f"agent-{number}" for number in range(CASCADED_MAX + 2)]
        delete = DeleteProject(project_id=project_id, cascade=True, confirm_name="Voyage 1")
        assert refusal_of(await world.tell(delete)) == UNPROCESSABLE
        assert len(world.schema.rows("projects")) == 1

    async def test_there_are_so_many_at_most(self, world: World) -> None:
        project_id = await self.made(world)
        world.besides = PROJECTS_OF_AGENT_MAX
        add = AddAgents(project_id=project_id, agent_ids=[AGENT])
        assert refusal_of(await world.tell(add)) == UNPROCESSABLE
        world.besides = PROJECTS_MAX
        state = ProjectState(id="project-2", name="Other")
        assert refusal_of(await world.tell(CreateProject(project=state))) == UNPROCESSABLE

    async def test_a_deleted_project_is_done_with_once_nothing_is_on_its_way(
        self, world: World
    ) -> None:
        project_id = await self.made(world)
        await world.tell(DeleteProject(project_id=project_id))
        await world.tell(EmptyProject(project_id=project_id))
        assert len(world.schema.rows("project_removals")) == 1
        world.clock.seconds += SETTLED_SECONDS
        for _ in range(2):
            assert isinstance(await world.tell(EmptyProject(project_id=project_id)), Accepted)
        assert world.schema.rows("project_removals") == []

    async def test_what_a_project_leaves_is_deleted_or_names_it_no_more(self, world: World) -> None:
        await self.made(world)
        world.left = [
            LeftByProject(AGENT, ORG, cascaded=True),
            LeftByProject(OTHER, ORG),
            LeftByProject(BLOCK, ORG),
            LeftByProject("project-1", ORG),
        ]
        world.managers = {AGENT: "agent-3"}
        any_world: Any = world
        policy = ClearDeletedProjects(world.to_others, world, any_world, world.clock, CountingIds())
        await policy.sweep()
        assert world.commands == [
            DeleteAgent(agent_id=AGENT),
            EndSleeptime(agent_id="agent-3"),
            UpdateAgent(agent_id=OTHER, request={"project_id": None}),
            UpdateBlock(block_id=BLOCK, changes={"project_id": None}),
        ]


@pytest.mark.parametrize(
    ("name", "slug"), [("My Project", "my-project"), ("  a--B! ", "a-b"), ("日本", "")]
)
def test_a_slug_has_small_letters_digits_and_hyphens(name: str, slug: str) -> None:
    assert slug_of(name) == slug
