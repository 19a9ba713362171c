"""Agents as files of the form that the retired server wrote (`.af`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Literal, Self

from litestar import Response
from pydantic import BaseModel, Field, model_validator
from pydantic_core import from_json, to_json

from libs.bus.ports import Clock
from libs.contracts.agent.conversations import main_conversation
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.request_size_limits import JsonLimit, Name, Text
from services.api.adapters.agents.agent_file_queries import AgentFileQueries
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.per_path_concurrency_limits import again, end_turn
from services.api.http.raw_json import raw
from services.api.http.request_admission import unless_hung_up
from services.api.http.request_parsing import AnyRequest, body_of
from services.api.openapi.operation import post
from services.api.resources.agents.agents import AGENTS
from services.api.resources.conversations.conversations import CONVERSATIONS
from services.api.v1.agent_file.agent_export import group_members, read_export
from services.api.v1.agent_file.agent_file_document import (
    REFUSAL_OF_LEGACY_FORMAT,
    agent_file_document,
    legacy_document,
)
from services.api.v1.as_of import seen_at
from services.api.v1.read_model_responses import document_of, fill_in

FILES_SECONDS_MAX = 20.0
LOOK_SECONDS = 0.5
SKILLS_MAX = 1_000
SKILLS_BYTES_MAX = 4 << 20
SKILL_FILE = "SKILL.md"


class Skill(BaseModel):
    """A skill of the client's: its files by their paths, or where it comes from."""

    name: Name
    files: dict[str, str] | None = None
    source_url: Text | None = None

    @model_validator(mode="after")
    def _has_content(self) -> Self:
        if self.source_url is None and SKILL_FILE not in (self.files or {}):
            raise ValueError(f"either `files` (with '{SKILL_FILE}') or `source_url` is needed")
        return self


class ExportRequest(BaseModel):
    """The options of an export: additions, and the conversation."""

    skills: Annotated[list[Skill], Field(max_length=SKILLS_MAX), JsonLimit(SKILLS_BYTES_MAX)] = []
    conversation_id: Name | None = None
    scrub_messages: bool = False


@post("/v1/agents/{agent_id:str}/export", "agent file", body=ExportRequest)
async def export_agent_with_skills(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Write an agent to a file of the retired server's form, with skills that the client has."""
    asked = await body_of(request, ExportRequest)
    return await agent_file(
        request,
        agent_id,
        conversation_id=asked.conversation_id,
        scrub_messages=asked.scrub_messages,
        skills=[skill.model_dump(mode="json") for skill in asked.skills],
    )


async def agent_file(
    request: AnyRequest,
    agent_id: str,
    *,
    form: Literal["letta", "legacy"] = "letta",
    use_legacy_format: bool = False,
    conversation_id: str | None = None,
    scrub_messages: bool = False,
    skills: Sequence[JsonObject] = (),
    at: str | None = None,
) -> Response[bytes]:
    """The file of an agent with the agents of the group that it manages, as of now or as of `at`.
    Raises Problem.

    `use_legacy_format` is refused, as the retired server refused it; the `legacy` form is asked for
    by `format`."""
    if use_legacy_format:
        raise Problem(400, {"detail": REFUSAL_OF_LEGACY_FORMAT})
    end_turn(request.scope["state"])  # it waits with all other exports from here on

    async def write() -> bytes:
        queries, org = AgentFileQueries(api_of(request).reads.database), org_of(request)
        if at is None:
            documents = await exported_documents(request, agent_id)
            agent_ids = [str(document["id"]) for document in documents]
            await wait_for_files(
                lambda: queries.unread_files(org, agent_ids), api_of(request).clock
            )
        async with api_of(request).exports.hold(org_of(request)), seen_at(request, agent_id, at):
            export = await read_export(
                queries,
                org,
                await exported_documents(request, agent_id),
                at=api_of(request).clock.now(),
                conversation_id=await meant_conversation(request, agent_id, conversation_id),
                scrub_messages=scrub_messages,
                skills=skills,
            )
            document = legacy_document if form == "legacy" else agent_file_document
            return to_json(await document(export), indent=2)

    return raw(await unless_hung_up(request, write()))


async def wait_for_files(unread_files: Callable[[], Awaitable[list[str]]], clock: Clock) -> None:
    """Wait until no file is parsed any more: until then it has no text. Raises the 503 that names
    those for which it takes too long."""
    until = clock.monotonic() + FILES_SECONDS_MAX
    while names := await unread_files():
        if clock.monotonic() >= until:
            why = f"Files of the agent are still parsed and have no text yet ({', '.join(names)})"
            raise again(503, why)
        await clock.sleep(LOOK_SECONDS)


async def exported_documents(request: AnyRequest, agent_id: str) -> list[JsonObject]:
    """The V1 documents of an agent and of those of the group that it manages, with all
    relationships. Raises Problem."""
    document = from_json(await document_of(request, AGENTS, agent_id))
    reads, org = api_of(request).reads, org_of(request)
    members = [
        from_json(await fill_in(request, body))
        for member in group_members(document)
        if (body := await reads.one(AGENTS, org, member)) is not None
    ]
    return [document, *members]


async def meant_conversation(
    request: AnyRequest, agent_id: str, conversation_id: str | None
) -> str | None:
    """The conversation that is meant; raises the 404 of one that this agent does not have."""
    if conversation_id in (None, "default", agent_id, main_conversation(agent_id)):
        return None
    conversation = from_json(await document_of(request, CONVERSATIONS, str(conversation_id)))
    if conversation["agent_id"] != agent_id:
        detail = f"Conversation with ID {conversation_id} not found"
        raise Problem(404, {"detail": detail})
    return str(conversation_id)
