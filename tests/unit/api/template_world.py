"""Templates and deployments in memory: processes of the api, and services that do what they are
told, refuse it, or are away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from libs.bus.command_dispatcher import CommandDispatcher
from libs.bus.ports import BusUnavailable, IncomingCommand
from libs.contracts.agent.agents import CreateAgent, DeleteAgent, UpdateAgent
from libs.contracts.api.deployments import DeploymentRequest, DeployTemplate, PresentBlock
from libs.contracts.api.templates import (
    CreateTemplate,
    TemplateAgent,
    TemplateBlock,
    TemplateContent,
    TemplateGroup,
)
from libs.contracts.bus_messages import INVALID, NOT_FOUND, Accepted, Command, Context, Rejected
from libs.contracts.groups.groups import CreateGroup, DeleteGroup
from libs.contracts.memory.blocks import CreateBlocks, DeleteBlock
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.unit_of_work import Repository
from libs.work.work_lease import DueWork
from services.api.engine.deployments import DeploymentPorts, Deployments
from services.api.handlers.ports import HandlerPorts
from services.api.handlers.templates import DeploymentHandlers, TemplateHandlers
from services.api.projections import project
from tests.clock_and_ids import CountingIds, ManualClock
from tests.leased_work import finish, sweep

ORG = "org-1"
TEMPLATE, DEPLOYMENT = "template-1", "deployment-1"
CLERK = TemplateAgent(
    entity_id="clerk",
    name="Clerk",
    fields={
        "system": "Be brief.",
        "model": "openai/gpt-4o-mini",
        "folder_ids": ["source-11111111-1111-4111-8111-111111111111"],
        "identity_ids": ["identity-11111111-1111-4111-8111-111111111111"],
        "enable_sleeptime": True,
    },
)
HEAD = TemplateAgent(entity_id="head", name="Head", fields={"model": "openai/gpt-4o-mini"})
HUMAN = TemplateBlock(
    entity_id="human", label="human", value="Called {{name}}", agents=["clerk", "head"]
)
RULES = TemplateBlock(entity_id="rules", label="rules", value="Never lie.", agents=["clerk"])
TEAM = TemplateContent(
    type="supervisor",
    agents=[CLERK, HEAD],
    blocks=[HUMAN, RULES],
    group=TemplateGroup(manager_entity_id="head"),
)
ADA = DeploymentRequest(memory_variables={"name": "Ada"})
REFUSED = Rejected(code=INVALID, reason="`model`: there is none")


@dataclass
class Elsewhere:
    """The other services, as a bus to them: each name of a command takes effect once. They are away
    at the command of a number, once: before it takes effect, or after it did (`sent`)."""

    there: set[str] = field(default_factory=set)
    answered: dict[str, Accepted | Rejected] = field(default_factory=dict)
    commands: list[Command] = field(default_factory=list)
    refuses: tuple[str, str] = ("", "")  # a topic, and what stands in its command
    away_at: int = -1
    sent: bool = False
    asked: int = 0

    async def request(self, command: Command, context: Context, **_: Any) -> Accepted | Rejected:
        self.asked += 1
        is_away = self.asked == self.away_at
        if is_away and not self.sent:
            raise BusUnavailable("away")
        reply = self.answered.get(context.message_id)
        if reply is None:
            reply = self.decide(command)
            if isinstance(reply, Accepted):
                self.answered[context.message_id] = reply
                self.commands.append(command)
        if is_away:
            raise BusUnavailable("away")
        return reply

    def decide(self, command: Command) -> Accepted | Rejected:
        topic, text = self.refuses
        if command.topic == topic and text in command.model_dump_json():
            return REFUSED
        match command:
            case CreateAgent(agent_id=id) | CreateGroup(group_id=id):
                assert id not in self.there, "it is made once"
                self.there.add(id)
            case CreateBlocks(blocks=blocks):
                assert not self.there & {block.id for block in blocks}, "they are made once"
                self.there |= {block.id for block in blocks}
            case DeleteAgent(agent_id=id) | DeleteGroup(group_id=id) | DeleteBlock(block_id=id):
                if id not in self.there:
                    return Rejected(code=NOT_FOUND, reason="It is not there")
                self.there.remove(id)
            case UpdateAgent(agent_id=id) if id not in self.there:
                return Rejected(code=NOT_FOUND, reason="It is not there")
        return Accepted()


class World:
    """What the processes of the api share."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.database = InMemoryDatabase(self.clock.monotonic)
        self.schema = self.database.schema("api")
        self.ids = CountingIds()
        self.elsewhere = Elsewhere()
        self.blocks: list[PresentBlock] = []
        self.folders: list[str] = []
        self.asked = 0

    # The contract of `TemplateQueries`

    async def count_templates(self, org: str) -> int:
        return len(list(self.schema.rows("templates")))

    async def version_content(
        self, org: str, template_id: str, number: int
    ) -> TemplateContent | None:
        for row in self.schema.rows("template_versions"):
            if (row["template_id"], row["number"]) == (template_id, number):
                return TemplateContent.model_validate(row["content"])
        return None

    async def due_deployments(self) -> Sequence[DueWork]:
        templates: dict[Any, Any] = {row["id"]: row for row in self.schema.rows("templates")}
        found = []
        for row in self.schema.rows("deployments"):
            newest = templates.get(row["template_id"], {}).get("migrating_to", 0)
            behind = row["status"] == "completed" and int(str(row["follows_after"])) < newest
            if behind or row["status"] in ("started", "undoing", "migrating"):
                found.append(DueWork(str(row["id"]), str(row["org"])))
        return found

    async def empty_deployments(self, chosen: str, keys: list[str]) -> Sequence[DueWork]:
        return []

    async def files_max(self, org: str, agent_id: str) -> int | None:
        return 5 if agent_id in self.elsewhere.there else None

    async def known_tools(self, org: str, tool_ids: list[str]) -> set[str]:
        return set(tool_ids)

    async def blocks_of(self, org: str, agent_id: str) -> Sequence[PresentBlock]:
        return self.blocks

    async def folders_of(self, org: str, agent_id: str) -> Sequence[str]:
        return self.folders

    # What tests look at

    def story(self, aggregate_id: str = DEPLOYMENT) -> list[str]:
        return [event.topic for event in self.schema.streams.get(aggregate_id, [])]

    def row(self, table: str) -> dict[str, Any]:
        [row] = self.schema.rows(table)
        return dict(row)


class Process:
    """One process of the api."""

    def __init__(self, world: World, holder: str = "api-1") -> None:
        self.world = world
        store = InMemoryEventStore(world.database, "api", holder)
        repository = Repository(store, "api", project)
        self.deployments = Deployments(
            DeploymentPorts(
                repository=repository,
                bus=world.elsewhere,  # type: ignore[arg-type]
                clock=world.clock,
                ids=world.ids,
                committed=lambda: None,
                queries=world,
            )
        )
        unused: Any = None
        ports = HandlerPorts(
            clock=world.clock,
            attachments=unused,
            projects=unused,
            templates=world,
            deployments=self.deployments,
        )
        table = {**TemplateHandlers(ports).table(), **DeploymentHandlers(ports).table()}
        self.shell = CommandDispatcher(repository, table)

    async def tell(self, command: Command) -> Accepted | Rejected:
        """Handle a command as it comes from the bus, and let all end that begins thereupon."""
        self.world.asked += 1
        context = Context(f"m-{self.world.asked}", org=ORG, actor="user-1")
        name = f"{command.service}.{command.topic}"
        body = command.model_dump_json().encode()
        reply = await self.shell.answer(IncomingCommand(name, body, context))
        await finish(self.deployments)
        return reply

    async def save(self, content: TemplateContent = TEAM, name: str = "team") -> None:
        """Save a template."""
        command = CreateTemplate(
            template_id=TEMPLATE, project_id="default", name=name, content=content
        )
        reply = await self.tell(command)
        assert isinstance(reply, Accepted), reply

    async def deploy(
        self, request: DeploymentRequest = ADA, version: int = 0
    ) -> Accepted | Rejected:
        """Have agents made from a version, 0 for the latest."""
        command = DeployTemplate(
            deployment_id=DEPLOYMENT, template_id=TEMPLATE, version=version, request=request
        )
        return await self.tell(command)

    async def sweep(self) -> None:
        """Take up what is left, and finish it."""
        await sweep(self.deployments)
