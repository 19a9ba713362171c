"""Gives imported agents their identities and projects: those that are here already, or new ones."""

from __future__ import annotations

import re
from collections.abc import Callable

from pydantic import BaseModel

from libs.contracts.agent_file import Definition
from libs.contracts.api.attachments import AttachIdentity
from libs.contracts.api.identities import CreateIdentity
from libs.contracts.api.import_errors import BadSource
from libs.contracts.api.imports import EntryError
from libs.contracts.api.projects import AddAgents, CreateProject
from libs.contracts.bus_messages import CONFLICT, Accepted, Command, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.error_bodies import id_pattern
from libs.contracts.letta.request_size_limits import Name
from services.api.engine.import_plan import Plan
from services.api.engine.import_ports import Sender

KINDS = frozenset({"identity", "project"})


class IdentityNames(BaseModel):
    """The names of an identity of a file, which are no longer than those of a request: one of its
    keys that no index could hold would end in an error again and again."""

    identifier_key: Name
    name: Name
    project_id: Name | None = None


class Attachments:
    """Makes identities and projects, unless others have their key or name, and attaches agents to
    them, or to those others: a file changes nothing about what is here."""

    def __init__(self, sender: Sender, plan: Plan) -> None:
        self.sender = sender
        self.plan = plan
        self.owners: dict[str, str] = {}

    async def make(self, number: int, definition: Definition) -> None:
        """Have the identity or the project of a definition. Raises BadSource, ValidationError."""
        if not definition.value or definition.id in self.plan.decision.present:
            return
        command_of = identity_command if definition.of == "identity" else project_command
        self.owners[definition.id] = await self.owner(number, definition, command_of)

    async def owner(
        self,
        number: int,
        definition: Definition,
        command_of: Callable[[Definition, str], Command],
    ) -> str:
        """The id of what has the key or the name of a definition: its own, unless that was another
        one's, or that of what is here."""
        first = definition.id
        if definition.of == "project" and not is_project_id(first):
            first = derived_id("project", self.plan.wanted.org, first)
        wanted = (first, derived_id(definition.of, self.plan.wanted.import_id, first))
        reply: Accepted | Rejected = Accepted()
        for owner_id in wanted:
            reply = await self.sender.ask(command_of(definition, owner_id), definition.of, owner_id)
            if isinstance(reply, Accepted):
                return owner_id
            here = reply.details.get("owner_id")
            if here:
                return str(here)
            if reply.code != CONFLICT:
                break
        assert isinstance(reply, Rejected), "what was accepted was returned"
        raise BadSource([EntryError(entry=f"line {number}", message=reply.reason)])

    async def attach(self, number: int, definition: Definition) -> None:
        """Attach the agents of a definition, which are there now. Raises BadSource."""
        owner_id = self.owners.get(definition.id, definition.id)
        for agent_id in definition.attached_to:
            command: Command = AttachIdentity(identity_id=owner_id, target_id=agent_id)
            if definition.of == "project":
                command = AddAgents(project_id=owner_id, agent_ids=[agent_id])
            await self.sender.send(command, f"line {number}", "attach", str(number), agent_id)


def identity_command(definition: Definition, owner_id: str) -> Command:
    """The command that makes an identity. Raises ValidationError."""
    fields = definition.value.get("identity")
    named = {**(fields if isinstance(fields, dict) else {}), "id": owner_id}
    IdentityNames.model_validate(named)
    return CreateIdentity.model_validate({"identity": named})


def project_command(definition: Definition, owner_id: str) -> Command:
    """The command that makes a project. Raises ValidationError."""
    return CreateProject.model_validate({"project": {**definition.value, "id": owner_id}})


def is_project_id(name: str) -> bool:
    """Whether a project can have this id: other servers may have other names for them."""
    return re.fullmatch(id_pattern("project")[1:-1], name) is not None
