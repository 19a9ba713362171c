"""Makes the things that the agents of a source use, by the commands that clients make them by."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from libs.contracts.agent.agents import RecordFork, UpdateAgent
from libs.contracts.agent_file import Definition
from libs.contracts.api.import_errors import BadSource
from libs.contracts.api.imports import EntryError, ImportOptions, ImportSource
from libs.contracts.appended_histories import PastEvent, PastHistory, append_command
from libs.contracts.bus_messages import CONFLICT, Accepted, Command, JsonObject, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.groups.groups import CreateGroup
from libs.contracts.letta.enums import ToolType
from libs.contracts.letta.tools import ToolState
from libs.contracts.memory.agent_folders import AttachFolder
from libs.contracts.memory.archives import ArchiveCreated, AttachArchive
from libs.contracts.memory.folders import CreateFolder
from libs.contracts.scheduler.schedules import CreateSchedule
from libs.contracts.tools.mcp_servers import CreateMcpServer
from libs.contracts.tools.sandbox_configs import SetSandboxConfig, sandbox_config_id
from libs.contracts.tools.tools import CreateTool
from services.api.adapters.agents.import_queries import PresentAgent, PresentTool
from services.api.domain.refusals import first_error
from services.api.engine.import_attachments import KINDS, Attachments
from services.api.engine.import_plan import Plan
from services.api.engine.import_ports import ImportPorts, Sender

# What tells a definition of a tool from another one of its name.
TOOL_DEFINITION = (
    *("description", "source_type", "source_code", "json_schema", "args_json_schema"),
    *("return_char_limit", "pip_requirements", "npm_requirements"),
)
NAME_TRIES = 20
COPY_SUFFIX = "_copy"


class Definitions:
    """Makes the things of a source. What needs the agents waits until they are there."""

    def __init__(self, ports: ImportPorts, sender: Sender, plan: Plan) -> None:
        self.ports = ports
        self.sender = sender
        self.plan = plan
        self.later: list[tuple[int, Definition]] = []
        # Those that were deleted with their files: the files get other ids, too.
        self.renewed_folders: set[str] = set()
        # Tools that are there get another definition last: nothing would take that back.
        self.overriding: list[tuple[int, CreateTool]] = []
        self.agents: dict[str, PresentAgent] = {}
        self.left_out: list[EntryError] = []
        self.attachments = Attachments(sender, plan)

    @property
    def options(self) -> ImportOptions:
        """The client's options for the import."""
        return self.plan.wanted.options

    async def take(self, number: int, definition: Definition) -> None:
        """Make a thing, or remember it until the agents are there. Raises BadSource."""
        is_new = bool(definition.value) and definition.id not in self.plan.decision.present
        makers: dict[str, Callable[..., Any]] = {
            "tool": self.make_tool,
            "archive": self.make_archive,
            "folder": self.make_folder,
            "sandbox_config": self.make_sandbox_config,
            "mcp_server": self.make_mcp_server,
            **dict.fromkeys(KINDS, self.attachments.make),
        }
        maker = makers.get(definition.of)
        try:
            if maker is not None and (is_new or definition.of == "tool"):
                await maker(number, definition)
        except ValidationError as invalid:
            bad = BadSource.at_line(number, first_error(invalid))
            raise bad.about(definition.entry) from None
        except BadSource as bad:
            raise bad.about(definition.entry) from None
        if definition.of in ("archive", "folder", "group", "schedule", *KINDS):
            renamed = self.plan.ids.of(definition.id)
            self.later.append((number, definition.model_copy(update={"id": renamed})))

    async def make_tool(self, number: int, definition: Definition) -> None:
        """Have a tool of that name, which other lines then mean by the id of the file's."""
        fields = definition.value.get("tool")
        command = CreateTool.model_validate(
            {**definition.value, "tool": {**fields, "id": definition.id}}
            if isinstance(fields, dict)
            else definition.value
        )
        tool = command.tool
        if tool.tool_type is not ToolType.custom:
            return
        if self.plan.wanted.source.form == "letta":  # its lines say what becomes of it already
            if command.given:
                self.overriding.append((number, command))
            else:
                await self.sender.send(command, f"line {number}", "tool", tool.id)
            return
        there = (await self.ports.queries.tools_by_name(self.plan.wanted.org, [tool.name])).get(
            tool.name
        )
        if there is not None and not self.overrides(tool, there):
            self.plan.ids.put(definition.id, there.id)
            return
        tool = tool.model_copy(update={"created_by_id": None, "last_updated_by_id": None})
        if not self.options.accept_tools:
            tool = tool.model_copy(update={"default_requires_approval": True})
        given = said_of(tool)
        if there is not None:
            self.plan.ids.put(definition.id, there.id)
            self.overriding.append((number, CreateTool(tool=tool, given=given)))
            return
        reply = await self.create(tool, given, number)
        self.plan.ids.put(definition.id, str(reply.result["tool_id"]))

    async def create(self, tool: ToolState, given: list[str], number: int) -> Accepted:
        """Make a tool, under another id if its own was that of a tool that was deleted."""
        reply = await self.sender.ask(CreateTool(tool=tool, given=given), "tool", tool.id)
        if isinstance(reply, Rejected) and reply.code == CONFLICT:
            another = derived_id("tool", self.plan.wanted.import_id, tool.id)
            renamed = tool.model_copy(update={"id": another})
            command = CreateTool(tool=renamed, given=given)
            return await self.sender.send(command, f"line {number}", "tool", "again", str(number))
        return self.must_accept(reply, number)

    def overrides(self, tool: ToolState, there: PresentTool) -> bool:
        """Whether a tool that is there gets the definition of the file, which every agent that has
        it then calls: only where the client accepts what the file defines."""
        wanted = self.options.override_existing_tools and self.options.accept_tools
        if there.tool_type != ToolType.custom or not wanted:
            return False
        known = from_json(there.document)
        fields = tool.model_dump(mode="json")
        return any(fields[name] != known.get(name) for name in said_of(tool))

    async def make_archive(self, number: int, definition: Definition) -> None:
        """Make an archive, attached to nobody yet."""
        value = dict(definition.value)
        created_at = value.pop("created_at", None)
        at = self.plan.wanted.requested_at
        if isinstance(created_at, str):
            at = datetime.fromisoformat(created_at)
        payload: JsonObject = {**value, "agent_id": "", "created_by_id": self.plan.wanted.actor}
        past = PastEvent(topic=ArchiveCreated.topic, payload=payload, occurred_at=at)
        history = PastHistory(aggregate_id=definition.id, events=(past,))
        command = append_command("memory")(
            import_id=self.plan.wanted.import_id, histories=(history,)
        )
        await self.sender.send(command, f"line {number}", "archive", str(number))

    async def make_folder(self, number: int, definition: Definition) -> None:
        """Make a folder, under a name that is free; under another id, if one of its id was deleted:
        that is its own for ever."""
        if await self.is_folder_made(number, definition):
            return
        another = derived_id("source", self.plan.wanted.import_id, definition.id)
        self.plan.ids.put(definition.id, another)
        self.renewed_folders.add(another)
        renewed = definition.model_copy(update={"id": another})
        if not await self.is_folder_made(number, renewed):
            name = str(definition.value.get("name", ""))[:100]
            raise BadSource.at_line(number, f"there are {NAME_TRIES} folders called '{name}'")

    async def is_folder_made(self, number: int, definition: Definition) -> bool:
        """Make a folder, by its name or the next that is free; returns whether that was to be."""
        name = str(definition.value.get("name", ""))
        for attempt in range(NAME_TRIES):
            wanted = {**definition.value, "name": f"{name} ({attempt})" if attempt else name}
            command = CreateFolder.model_validate({**wanted, "folder_id": definition.id})
            reply = await self.sender.ask(command, "folder", definition.id, str(attempt))
            if isinstance(reply, Accepted) or reply.code != CONFLICT:
                self.must_accept(reply, number)
                return True
        return False

    async def make_mcp_server(self, number: int, definition: Definition) -> None:
        """Add an MCP server, where the client accepts what it may start; one of its name stays."""
        if not self.options.accept_tools:
            return
        fields = {**definition.value, "server_id": definition.id}
        command = CreateMcpServer.model_validate(fields)
        reply = await self.sender.ask(command, "mcp_server", definition.id)
        if isinstance(reply, Rejected) and reply.code != CONFLICT:
            self.must_accept(reply, number)

    async def make_sandbox_config(self, number: int, definition: Definition) -> None:
        """Have the settings of the sandbox, unless there are others."""
        command = SetSandboxConfig.model_validate(
            {
                "config": definition.value,
                "config_id": sandbox_config_id(self.plan.wanted.org),
                "only_default": True,
            }
        )
        await self.sender.send(command, f"line {number}", "sandbox", str(number))

    async def finish(self) -> None:
        """Give the agents what they use, now that they are there, and make what is about them."""
        org, agent_ids = self.plan.wanted.org, self.plan.agent_ids
        self.agents = await self.ports.queries.agents(org, agent_ids)
        for number, definition in self.later:
            if definition.of in KINDS:
                await self.attachments.attach(number, definition)
                continue
            for agent_id in definition.attached_to:
                if definition.of == "archive":
                    command: Command = AttachArchive(archive_id=definition.id, agent_id=agent_id)
                elif definition.of == "folder":
                    command = AttachFolder(
                        agent_id=agent_id,
                        folder_id=definition.id,
                        files_max=self.agents[agent_id].files_max,
                    )
                else:
                    continue
                await self.sender.send(command, f"line {number}", "attach", str(number), agent_id)
            await self.make_about_agents(number, definition)
        await self.change_agents()
        for number, override in self.overriding:
            await self.sender.send(override, f"line {number}", "override", override.tool.id)

    async def make_about_agents(self, number: int, definition: Definition) -> None:
        """Make a thing that agents are in, under another id if one of its id was deleted."""
        if not definition.value or definition.id in self.plan.decision.present:
            return
        another = derived_id(definition.of, self.plan.wanted.import_id, definition.id)
        reply: Accepted | Rejected = Accepted()
        for thing_id in (definition.id, another):
            command = creation(definition, thing_id, number)
            if command is None:
                return
            reply = await self.sender.ask(command, definition.of, thing_id)
            if isinstance(reply, Accepted) or reply.code != CONFLICT:
                break
        self.must_accept(reply, number)

    async def change_agents(self) -> None:
        """Change the agents as the client said, and remember in the history of the origin that it
        was forked."""
        source = self.plan.wanted.source
        for place, agent_id in enumerate(self.plan.agent_ids):
            changes = self.changes(place, agent_id)
            if changes:
                command = UpdateAgent(agent_id=agent_id, request=changes)
                await self.sender.send(command, agent_id, "change", agent_id)
            if source.form == "fork" and agent_id != source.agent_id:
                await self.record_fork(source, agent_id)

    async def record_fork(self, source: ImportSource, fork_id: str) -> None:
        """Remember in both histories what was made from what. The origin may be gone by now."""
        assert source.cut is not None, "a fork says as of when"
        for agent_id in (fork_id, source.agent_id):
            command = RecordFork(
                agent_id=agent_id, origin_id=source.agent_id, fork_id=fork_id, cut=source.cut
            )
            await self.sender.ask(command, "fork", agent_id)

    def changes(self, place: int, agent_id: str) -> JsonObject:
        """The changes to an agent of the source."""
        options = self.options
        changes: JsonObject = {}
        if self.plan.wanted.source.form != "letta":
            if options.name and place == 0:
                changes["name"] = options.name
            elif options.append_copy_suffix:
                name = self.agents[agent_id].name.removesuffix(COPY_SUFFIX)
                changes["name"] = name + COPY_SUFFIX
            if options.project_id:
                changes["project_id"] = options.project_id
            secrets = self.plan.secrets.get(self.plan.checks.agent_ids[place])
            if options.secrets is not None:
                secrets = {**(secrets or {}), **options.secrets}
            if secrets is not None:
                changes["secrets"] = {**secrets}
        if options.model:
            changes["model"] = options.model
        if options.embedding:
            changes["embedding"] = options.embedding
        return changes

    def leave_out(self, entry: str, refused: BadSource) -> None:
        """Note a thing that the import goes on without, once."""
        if not any(known.entry == entry for known in self.left_out):
            message = "; ".join(error.message for error in refused.errors)
            self.left_out.append(EntryError(entry=entry, message=message))

    def must_accept(self, reply: Accepted | Rejected, number: int) -> Accepted:
        """The reply to a command about a line. Raises BadSource with a refusal."""
        if isinstance(reply, Rejected):
            raise BadSource([EntryError(entry=f"line {number}", message=reply.reason)])
        return reply


def creation(definition: Definition, thing_id: str, number: int) -> Command | None:
    """The command that makes a thing about agents; None for other kinds. Raises BadSource."""
    try:
        if definition.of == "schedule":
            fields = {**definition.value, "id": thing_id}
            return CreateSchedule.model_validate({"schedule": fields})
        if definition.of == "group":
            return CreateGroup.model_validate({**definition.value, "group_id": thing_id})
    except ValidationError as invalid:
        raise BadSource.at_line(number, first_error(invalid)) from None
    return None


def said_of(tool: ToolState) -> list[str]:
    """The file's definition of a tool; with an approval only where it states one."""
    is_said = tool.default_requires_approval is not None
    return [*TOOL_DEFINITION, *(["default_requires_approval"] if is_said else [])]
