"""Makes or changes what the agents of a source use that goes on where an earlier one has stopped: a
database that is moved here in several passes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pydantic import ValidationError

from libs.contracts.agent_file import Definition
from libs.contracts.api.identities import UpsertIdentity
from libs.contracts.api.import_errors import BadSource
from libs.contracts.api.imports import EntryError
from libs.contracts.api.projects import AddAgents, CreateProject
from libs.contracts.bus_messages import CONFLICT, NOT_FOUND, Accepted, Command, JsonObject, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.groups.groups import CreateGroup, UpdateGroup
from libs.contracts.letta.identities import IdentityState
from libs.contracts.letta.projects import ProjectState
from libs.contracts.memory.archives import UpdateArchive
from libs.contracts.memory.folders import UpdateFolder
from libs.contracts.tools.mcp_servers import UpdateMcpServer
from libs.contracts.tools.sandbox_configs import (
    VARIABLE_KIND,
    SetSandboxConfig,
    SetSandboxVariable,
    sandbox_config_id,
)
from libs.contracts.tools.tools import CreateTool
from services.api.domain.refusals import first_error
from services.api.engine.import_definitions import TOOL_DEFINITION, Definitions
from services.api.engine.import_plan import Plan
from services.api.engine.import_ports import ImportPorts, Sender

# What a later pass changes of a group; the rest is what the server itself keeps of it.
GROUP_CHANGES = (
    *("description", "agent_ids", "manager_agent_id", "termination_token", "max_turns"),
    *("sleeptime_agent_frequency", "max_message_buffer_length", "min_message_buffer_length"),
)
TOOL_CHANGES = (*TOOL_DEFINITION, "tags", "default_requires_approval", "enable_parallel_execution")
FOLDER_CHANGES = ("name", "description", "instructions", "metadata")
ARCHIVE_CHANGES = ("name", "description", "metadata")
EMPTIED = frozenset({"description", "instructions"})  # what the source may have no more


type Have = Callable[[int, Definition], Awaitable[None]]


class ContinuedDefinitions(Definitions):
    """Makes what is new, and changes what is there to what the source says."""

    def __init__(self, ports: ImportPorts, sender: Sender, plan: Plan) -> None:
        super().__init__(ports, sender, plan)
        self.about: list[tuple[int, Definition]] = []

    async def finish(self) -> None:
        """Give the agents what they use, now that they are there, and make what is about them."""
        await super().finish()
        for number, definition in self.about:
            await self.is_had(number, definition, self.have_about_agents)

    async def take(self, number: int, definition: Definition) -> None:
        """Make or change a thing, or remember it until the agents are there. One that is refused is
        left out, and its agents do without."""
        if not await self.is_had(number, definition, self.have_thing):
            return
        if definition.of in ("identity", "project", "group"):
            self.about.append((number, definition))
        elif definition.of in ("archive", "folder"):
            self.later.append((number, definition))

    async def is_had(self, number: int, definition: Definition, have: Have) -> bool:
        """Whether a thing is there as the source says, and was not refused."""
        try:
            await have(number, definition)
        except ValidationError as invalid:
            self.left_out.append(EntryError(entry=definition.id, message=first_error(invalid)))
            return False
        except BadSource as refused:
            self.leave_out(definition.id, refused)
            return False
        return True

    async def have_thing(self, number: int, definition: Definition) -> None:
        """Make or change a thing that needs no agent. Raises BadSource and ValidationError."""
        match definition.of:
            case "tool":
                await self.have_tool(number, definition)
            case "mcp_server":
                await self.have_mcp_server(number, definition)
            case "sandbox_config":
                await self.have_sandbox_config(number, definition)
            case "folder":
                if not await self.is_folder_changed(number, definition):
                    await self.make_folder(number, definition)
            case "archive":
                changes = choose_fields(definition.value, ARCHIVE_CHANGES)
                update = UpdateArchive(archive_id=definition.id, changes=changes)
                if not await self.is_changed(update, number):
                    await self.make_archive(number, definition)

    async def is_changed(self, command: Command, number: int) -> bool:
        """Whether a thing is there and is as the source says now. Raises BadSource."""
        return is_there(await self.sender.ask(command, "change", str(number)), number)

    async def is_folder_changed(self, number: int, definition: Definition) -> bool:
        """Whether a folder is there and is as the source says now. Raises BadSource."""
        changes = choose_fields(definition.value, FOLDER_CHANGES)
        kept = {name: value for name, value in changes.items() if name != "name"}
        return await self.is_renamed(
            UpdateFolder(folder_id=definition.id, changes=changes),
            UpdateFolder(folder_id=definition.id, changes=kept),
            number,
        )

    async def is_renamed(self, renamed: Command, kept: Command, number: int) -> bool:
        """Whether a thing is there and is as the source says now; it keeps its name where another
        one has the new one. Raises BadSource."""
        reply = await self.sender.ask(renamed, "rename", str(number))
        if isinstance(reply, Rejected) and reply.code == CONFLICT:
            return await self.is_changed(kept, number)
        return is_there(reply, number)

    async def have_tool(self, number: int, definition: Definition) -> None:
        """Have a tool as the source says: its id stays where no other one has its name."""
        command = CreateTool.model_validate({**definition.value, "given": [*TOOL_CHANGES]})
        reply = await self.sender.send(command, f"line {number}", "tool", str(number))
        self.plan.ids.put(definition.id, str(reply.result["tool_id"]))

    async def have_mcp_server(self, number: int, definition: Definition) -> None:
        """Have an MCP server as the source says, where the client accepts what it may start; a
        secret that the source does not say stays."""
        if not self.options.accept_tools:
            return
        named = {"server_id": definition.id, "name": definition.value.get("name")}
        changes = definition.value.get("config")
        renamed = UpdateMcpServer.model_validate({**named, "changes": changes})
        kept = renamed.model_copy(update={"name": None})
        if not await self.is_renamed(renamed, kept, number):
            await self.make_mcp_server(number, definition)

    async def have_sandbox_config(self, number: int, definition: Definition) -> None:
        """Have the settings of the sandbox, with their variables."""
        config_id = sandbox_config_id(self.plan.wanted.org)
        command: Command = SetSandboxConfig.model_validate(
            {"config": definition.value.get("config"), "config_id": config_id}
        )
        await self.sender.send(command, f"line {number}", "sandbox", str(number))
        variables = definition.value.get("variables")
        for key, value in variables.items() if isinstance(variables, dict) else ():
            command = SetSandboxVariable(
                config_id=config_id,
                variable_id=derived_id(VARIABLE_KIND, config_id, key),
                key=key,
                value=str(value),
            )
            await self.sender.send(command, f"line {number}", "variable", str(number), key)

    async def have_about_agents(self, number: int, definition: Definition) -> None:
        """Have a thing that agents are in. Raises BadSource and ValidationError."""
        match definition.of:
            case "group":
                await self.have_group(number, definition)
            case "identity":
                await self.have_identity(number, definition)
            case "project":
                await self.have_project(number, definition)

    async def have_group(self, number: int, definition: Definition) -> None:
        """Make a group, or change the one that is there."""
        command: Command = CreateGroup.model_validate(
            {**definition.value, "group_id": definition.id}
        )
        reply = await self.sender.ask(command, "group", str(number))
        if isinstance(reply, Accepted) or reply.code != CONFLICT:
            accept(reply, number)
            return
        config = definition.value.get("config")
        changes = choose_fields(config if isinstance(config, dict) else {}, GROUP_CHANGES)
        command = UpdateGroup(group_id=definition.id, changes=changes)
        await self.sender.send(command, f"line {number}", "group", "change", str(number))

    async def have_identity(self, number: int, definition: Definition) -> None:
        """Make an identity, or change the one of its key."""
        fields = definition.value.get("identity")
        identity = IdentityState.model_validate(fields)
        command = UpsertIdentity(
            identity=identity.model_copy(update={"organization_id": self.plan.wanted.org}),
            agent_ids=[*definition.attached_to],
            replaces_agents=True,
        )
        await self.sender.send(command, f"line {number}", "identity", str(number))

    async def have_project(self, number: int, definition: Definition) -> None:
        """Make a project, unless it is there, and put the agents into it."""
        project = ProjectState.model_validate({**definition.value, "id": definition.id})
        reply = await self.sender.ask(CreateProject(project=project), "project", str(number))
        if isinstance(reply, Rejected) and reply.code != CONFLICT:
            accept(reply, number)
        agents = AddAgents(project_id=definition.id, agent_ids=[*definition.attached_to])
        await self.sender.send(agents, f"line {number}", "members", str(number))


def choose_fields(fields: JsonObject, names: tuple[str, ...]) -> JsonObject:
    """Those of the fields that are named and have a value, or may have none any more."""
    return {
        name: fields[name]
        for name in names
        if name in fields and (fields[name] is not None or name in EMPTIED)
    }


def is_there(reply: Accepted | Rejected, number: int) -> bool:
    """Whether what a command changes is there. Raises BadSource with another refusal."""
    if isinstance(reply, Rejected) and reply.code == NOT_FOUND:
        return False
    accept(reply, number)
    return True


def accept(reply: Accepted | Rejected, number: int) -> None:
    """Raise BadSource with the refusal of a command about a line."""
    if isinstance(reply, Rejected):
        raise BadSource.at_line(number, reply.reason)
