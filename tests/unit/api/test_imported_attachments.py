"""Which identity or project an imported agent gets: its own, what is here, or one made anew."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from libs.contracts.agent_file import Definition
from libs.contracts.api.attachments import AttachIdentity
from libs.contracts.api.import_errors import BadSource
from libs.contracts.api.projects import AddAgents, CreateProject
from libs.contracts.bus_messages import (
    CONFLICT,
    UNPROCESSABLE,
    Accepted,
    Command,
    JsonObject,
    Rejected,
)
from libs.contracts.deterministic_ids import derived_id
from services.api.engine.import_attachments import Attachments

ORG, IMPORT, AGENT = "org-1", "import-1", "agent-1"
IDENTITY, PROJECT = derived_id("identity", "a"), derived_id("project", "a")
ADA = Definition(
    of="identity",
    id=IDENTITY,
    value={"identity": {"identifier_key": "ada", "name": "Ada", "identity_type": "user"}},
    attached_to=(AGENT,),
)


class Sender:
    """Answers commands with these replies, and then accepts all."""

    def __init__(self, *replies: Rejected) -> None:
        self.replies = list(replies)
        self.sent: list[Command] = []

    async def ask(self, command: Command, *_: str) -> Accepted | Rejected:
        self.sent.append(command)
        return self.replies.pop(0) if self.replies else Accepted()

    async def send(self, command: Command, *_: str) -> Accepted:
        self.sent.append(command)
        return Accepted()


def refused(code: str = CONFLICT, **details: str) -> Rejected:
    told: JsonObject = {**details}
    return Rejected(code=code, reason="no", details=told)


async def imported(definition: Definition, sender: Sender, *present: str) -> Command:
    """The command by which the agent of a definition is attached."""
    plan: Any = SimpleNamespace(
        wanted=SimpleNamespace(org=ORG, import_id=IMPORT),
        decision=SimpleNamespace(present=frozenset(present)),
    )
    any_sender: Any = sender
    attachments = Attachments(any_sender, plan)
    await attachments.make(1, definition)
    await attachments.attach(1, definition)
    return sender.sent[-1]


async def test_one_that_is_not_here_is_made_under_its_own_id() -> None:
    sender = Sender()
    attached = await imported(ADA, sender)
    assert attached == AttachIdentity(identity_id=IDENTITY, target_id=AGENT)
    assert [command.topic for command in sender.sent][:-1] == ["identity.create"]


async def test_one_that_is_here_is_left_as_it_is() -> None:
    sender = Sender()
    attached = await imported(ADA, sender, IDENTITY)
    assert sender.sent == [attached]
    only_named = ADA.model_copy(update={"value": {}})
    assert await imported(only_named, Sender()) == attached


async def test_where_another_has_the_key_the_agent_gets_that_one() -> None:
    attached = await imported(ADA, Sender(refused(owner_id="identity-here")))
    assert attached == AttachIdentity(identity_id="identity-here", target_id=AGENT)


async def test_an_id_that_is_no_more_is_not_used_again() -> None:
    attached = await imported(ADA, Sender(refused()))
    again = derived_id("identity", IMPORT, IDENTITY)
    assert attached == AttachIdentity(identity_id=again, target_id=AGENT)


async def test_what_cannot_be_made_ends_the_import_with_the_line() -> None:
    for replies in ((refused(), refused()), (refused(UNPROCESSABLE),)):
        with pytest.raises(BadSource) as raised:
            await imported(ADA, Sender(*replies))
        assert "line 1" in str(raised.value.errors)


@pytest.mark.parametrize("field", ["identifier_key", "name", "project_id"])
async def test_names_of_an_identity_are_no_longer_than_in_a_request(field: str) -> None:
    fields: Any = ADA.value["identity"]
    long = ADA.model_copy(update={"value": {"identity": {**fields, field: "x" * 501}}})
    sender = Sender()
    with pytest.raises(ValidationError, match=field):
        await imported(long, sender)
    assert sender.sent == []


async def test_a_project_of_another_kind_of_id_gets_the_same_one_each_time() -> None:
    named = Definition(of="project", id="trips", value={"name": "Trips"}, attached_to=(AGENT,))
    sender = Sender()
    attached = await imported(named, sender)
    project_id = derived_id("project", ORG, "trips")
    assert attached == AddAgents(project_id=project_id, agent_ids=[AGENT])
    [made, _] = sender.sent
    assert isinstance(made, CreateProject)
    assert (made.project.id, made.project.name) == (project_id, "Trips")
    kept = named.model_copy(update={"id": PROJECT})
    assert await imported(kept, Sender()) == AddAgents(project_id=PROJECT, agent_ids=[AGENT])
