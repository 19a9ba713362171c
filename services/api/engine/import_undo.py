"""Takes back what an import has made before it was given up or cancelled."""

from __future__ import annotations

import logging
from contextlib import aclosing
from dataclasses import replace

from libs.contracts.agent_file import LINE, Definition
from libs.contracts.api.identities import DeleteIdentity
from libs.contracts.api.import_errors import BadSource
from libs.contracts.api.imports import ImportOptions, ImportSource
from libs.contracts.api.projects import DeleteProject
from libs.contracts.appended_histories import SERVICES_WITH_HISTORIES, undo_command
from libs.contracts.bus_messages import NOT_FOUND, Command, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.groups.groups import DeleteGroup
from libs.contracts.memory.folders import DeleteFolder
from libs.contracts.scheduler.schedules import DeleteSchedule
from libs.contracts.tools.mcp_servers import DeleteMcpServer
from libs.contracts.tools.tools import DeleteTool
from services.api.adapters.agents.import_sources import WantedImport
from services.api.domain.agent_import import ImportState
from services.api.engine.import_plan import make_plan, plan_of_the_past
from services.api.engine.import_ports import ImportPorts, Sender
from services.api.engine.import_transfer import Transfer

log = logging.getLogger(__name__)

KIND_BYTES = 64  # a line says within these of which kind it is


async def undo(ports: ImportPorts, sender: Sender, state: ImportState) -> None:
    """Delete everything that was made: what came as histories, the agents first, and then what
    commands made. Raises BusUnavailable; it may be repeated."""
    for service in reversed(SERVICES_WITH_HISTORIES):
        after = ""
        while True:
            command = undo_command(service)(import_id=sender.wanted.import_id, after=after)
            reply = await sender.ask(command)
            if isinstance(reply, Rejected):
                raise RuntimeError(f"{command.topic}: {reply.reason}")
            after = str(reply.result.get("after", ""))
            if not after:
                break
    if state.replaced and state.cut is not None:
        await give_back(ports, sender.wanted, state.replaced, state.cut)
    try:
        await undo_definitions(ports, sender, state)
    except BadSource as unreadable:
        log.warning(
            "%s: what it defined is not taken back: %s", sender.wanted.import_id, unreadable
        )


async def give_back(
    ports: ImportPorts, wanted: WantedImport, replaced: list[str], cut: int
) -> None:
    """Make the agents that were replaced again, from their logs, under the same ids. Those that are
    there were not deleted yet, or were given back by an earlier attempt."""
    there = await ports.queries.agents(wanted.org, replaced)
    for agent_id in replaced:
        if agent_id in there:
            continue
        source = ImportSource(form="fork", agent_id=agent_id, cut=cut)
        again = replace(
            wanted,
            import_id=derived_id("import", wanted.import_id, "give back", agent_id),
            source=source,
            options=ImportOptions(),
        )
        try:
            plan = await plan_of_the_past(ports, again)
            await Transfer(ports, Sender(ports, again), plan, ImportState()).run()
        except BadSource as lost:
            log.error("%s cannot be given back: %s", agent_id, lost)


async def undo_definitions(ports: ImportPorts, sender: Sender, state: ImportState) -> None:
    """Delete the things that were made by commands: those that were not there before."""
    plan = await make_plan(ports, sender.wanted, state)
    async with aclosing(ports.sources.lines(sender.wanted)) as lines:
        async for raw in lines:
            if b'"definition"' not in raw[:KIND_BYTES]:
                continue
            line = LINE.validate_json(plan.ids.apply(raw))
            if not isinstance(line, Definition):
                continue
            if line.id in plan.decision.present or not line.value:
                continue
            command = deletion(line)
            reply = await sender.ask(command) if command else None
            if isinstance(reply, Rejected) and reply.code != NOT_FOUND:
                log.warning("%s stays: %s", line.id, reply.reason)


def deletion(definition: Definition) -> Command | None:
    """The command that deletes a thing; None where what it is made of is deleted otherwise."""
    match definition.of:
        case "tool":  # where it says what is `given`, it may be one that was there before
            is_new = not definition.value.get("given")
            return DeleteTool(tool_id=definition.id) if is_new else None
        case "mcp_server":
            return DeleteMcpServer(server_id=definition.id)
        case "folder":
            return DeleteFolder(folder_id=definition.id)
        case "group":
            return DeleteGroup(group_id=definition.id)
        case "identity":
            return DeleteIdentity(identity_id=definition.id)
        case "project":
            return DeleteProject(project_id=definition.id)
        case "schedule":
            return DeleteSchedule(schedule_id=definition.id)
    return None
