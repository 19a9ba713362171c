"""Conversations of agents: each with its own messages and runs, and if need be its own model and
blocks."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import Response
from pydantic import Field
from pydantic_core import to_json

from libs.contracts.agent.conversations import (
    CreateConversation,
    DeleteConversation,
    ForkConversation,
    PreviewSystemPrompt,
    RecompileConversation,
    UpdateConversation,
    main_conversation,
)
from libs.contracts.agent.runs import CancelRuns
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta import conversations as bodies
from libs.contracts.letta.request_size_limits import Name, SearchText
from services.api.adapters.resource_query_builder import (
    NOT_HIDDEN,
    Resource,
    Where,
    contains,
    filter_of,
)
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import (
    AnyRequest,
    Page,
    Query,
    body_of,
    parse,
    query_of,
    valid_id,
)
from services.api.openapi.operation import delete, get, patch, post
from services.api.resources.agents.agents import AGENTS
from services.api.v1.compaction_request import CompactionRequest, compact, read_compaction
from services.api.v1.message_request import Addressee
from services.api.v1.read_model_responses import (
    answer_document,
    answer_page,
    document_of,
    missing,
    must_exist,
)

RUNS_OF_CONVERSATION = (
    "from agent.run_view r where r.conversation_id = v.id and r.agent_id = v.agent_id"
    " and r.org = v.org"
)
CONVERSATIONS = Resource(
    kind="conv",
    view="agent.conversation_view",
    document=(
        "v.fields || jsonb_build_object('in_context_message_ids', to_jsonb(array("
        "select m.id from agent.message_view m where m.conversation_id = v.id and m.org = v.org"
        " and m.in_context order by m.position)))"
    ),
    sort_keys={
        "created_at": "v.created_at",
        "last_message_at": "coalesce(v.last_message_at, 'epoch'::timestamptz)",
        "last_run_completion": (
            "coalesce((select max((r.fields->>'completed_at')::timestamptz)"
            f" {RUNS_OF_CONVERSATION}), 'epoch'::timestamptz)"
        ),
    },
    created_view="agent.created_conversation_view",
)
# As V1 answers a creation and in lists: its `in_context_message_ids` are empty there.
WITHOUT_MESSAGE_IDS = """v.fields || '{"in_context_message_ids": []}'"""
OWN = "default"
CONVERSATION = "/v1/conversations/{conversation_id:str}"


class OfAgent(Query):
    """The agent that a conversation is of; needed where the conversation is `default`."""

    agent_id: Name | None = None


class NewOfAgent(Query):
    """The agent that a new conversation is of."""

    agent_id: Name


class ForkQuery(OfAgent):
    """Up to which message to fork, and whether lists leave the fork out."""

    message_id: Name | None = None
    hidden: bool = False


class RecompileQuery(Query):
    """Whether the system prompt is only shown."""

    dry_run: bool = False


class ConversationPage(Page):
    """A page of conversations."""

    limit: Annotated[int | None, Field(ge=0, le=1_000)] = 50
    order_by: Literal["created_at", "last_run_completion", "last_message_at"] = "created_at"
    agent_id: Annotated[Name | None, Where("v.agent_id = {}", key=True)] = None
    summary_search: Annotated[SearchText | None, contains("v.fields->>'summary'")] = None
    archive_status: Literal["unarchived", "archived", "all"] = "unarchived"


@post("/v1/conversations", "conversation", body=bodies.CreateConversation, query=NewOfAgent)
async def create_conversation(request: AnyRequest) -> Response[bytes]:
    """Create a conversation of an agent, with copies of those of its blocks that are named."""
    api = api_of(request)
    agent_id = valid_id("agent", query_of(request, NewOfAgent).agent_id)
    body = parse(await request.body() or b"{}", bodies.CreateConversation)
    conversation_id = api.new_id(request, "conv", agent_id)
    wanted = body.model_dump(mode="json", exclude_unset=True)
    command = CreateConversation(conversation_id=conversation_id, agent_id=agent_id, request=wanted)
    await api.send(request, command, message_id=f"create-{conversation_id}")
    return await answer_document(
        request, CONVERSATIONS, conversation_id, document=WITHOUT_MESSAGE_IDS
    )


@get("/v1/conversations", "conversations", query=ConversationPage)
async def list_conversations(request: AnyRequest) -> Response[bytes]:
    """List conversations, the newest first, without those that are hidden."""
    page = query_of(request, ConversationPage)
    found = filter_of(page, org_of(request)).add(NOT_HIDDEN)
    if page.archive_status != "all":
        # Written out, as in the index of those that are archived.
        found.add("v.archived" if page.archive_status == "archived" else "not v.archived")
    shown = WITHOUT_MESSAGE_IDS
    return await answer_page(request, CONVERSATIONS, page, found, key=page.order_by, document=shown)


@get(CONVERSATION, "conversation")
async def retrieve_conversation(request: AnyRequest, conversation_id: str) -> Response[bytes]:
    """Retrieve a conversation by its id."""
    return await answer_document(request, CONVERSATIONS, conversation_id)


@patch(CONVERSATION, "conversation", body=bodies.UpdateConversation)
async def update_conversation(request: AnyRequest, conversation_id: str) -> Response[bytes]:
    """Change the given fields of a conversation."""
    valid_id("conv", conversation_id)
    body = await body_of(request, bodies.UpdateConversation)
    wanted = body.model_dump(mode="json", exclude_unset=True)
    command = UpdateConversation(conversation_id=conversation_id, request=wanted)
    await api_of(request).send(request, command)
    return await answer_document(request, CONVERSATIONS, conversation_id)


@delete(CONVERSATION, "nothing")
async def delete_conversation(request: AnyRequest, conversation_id: str) -> Response[bytes]:
    """Delete a conversation with its messages, its runs and its own blocks."""
    command = DeleteConversation(conversation_id=valid_id("conv", conversation_id))
    await api_of(request).send(request, command)
    return raw(b"null")


@post(f"{CONVERSATION}/fork", "conversation", query=ForkQuery)
async def fork_conversation(request: AnyRequest, conversation_id: str) -> Response[bytes]:
    """Make a conversation that goes on from another one, from its end or from a message."""
    api = api_of(request)
    asked = query_of(request, ForkQuery)
    source = await addressee(request, conversation_id, asked.agent_id)
    fork_id = api.new_id(request, "conv", source.conversation_id, "fork")
    message_id = asked.message_id
    command = ForkConversation(
        conversation_id=fork_id,
        agent_id=source.agent_id,
        source_id=source.conversation_id,
        message_id=None if message_id is None else valid_id("message", message_id),
        hidden=asked.hidden,
    )
    await api.send(request, command, message_id=f"create-{fork_id}")
    return await answer_document(request, CONVERSATIONS, fork_id)


@post(f"{CONVERSATION}/cancel", "what became of each run", query=OfAgent)
async def cancel_conversation(request: AnyRequest, conversation_id: str) -> JsonObject:
    """Cancel the runs of a conversation that have not ended."""
    to = await addressee(request, conversation_id, query_of(request, OfAgent).agent_id)
    command = CancelRuns(agent_id=to.agent_id, conversation_id=to.conversation_id)
    return (await api_of(request).send(request, command)).result


@post(
    f"{CONVERSATION}/recompile", "system prompt", body=bodies.RecompileRequest, query=RecompileQuery
)
async def recompile_conversation(request: AnyRequest, conversation_id: str) -> Response[bytes]:
    """Make the system prompt of a conversation anew of what it shows now, and say what it is; with
    `dry_run` only say so."""
    api = api_of(request)
    body = parse(await request.body() or b"{}", bodies.RecompileRequest)
    to = await addressee(request, conversation_id, body.agent_id)
    names = {"agent_id": to.agent_id, "conversation_id": to.conversation_id}
    if query_of(request, RecompileQuery).dry_run:
        shown = await api.send(request, PreviewSystemPrompt(**names))
        return raw(to_json(shown.result["content"]))
    await api.send(request, RecompileConversation(**names))
    return raw(await api.messages.system_message(org_of(request), to.conversation_id))


@post(f"{CONVERSATION}/compact", "summary", body=CompactionRequest)
async def compact_conversation(request: AnyRequest, conversation_id: str) -> JsonObject:
    """Have the older part of a conversation summarised, and show models the summary."""
    asked = await read_compaction(request)
    return await compact(request, await addressee(request, conversation_id, asked.agent_id), asked)


async def addressee(
    request: AnyRequest,
    conversation_id: str,
    agent_id: str | None,
    *,
    unless_busy: bool = False,
    is_required: bool = False,
) -> Addressee:
    """The conversation that an id in a path means: with `default` and an agent, or an agent's id in
    its place, the agent's own conversation. Raises the 422 or the 404 that says what is wrong; that
    an agent is there only if it `is_required`, for a command finds that out."""
    own = OWN if conversation_id == OWN else ""
    if own or conversation_id.startswith("agent-"):
        named = agent_id if own else conversation_id
        if named is None:
            detail = "`default` means an agent's own conversation: name the agent with `agent_id`"
            raise Problem(422, {"detail": detail})
        valid_id("agent", named)
        if is_required:
            await must_exist(request, AGENTS, named)
        return Addressee(named, main_conversation(named), unless_busy)
    owner = await document_of(request, CONVERSATIONS, conversation_id, document="v.agent_id")
    if agent_id is not None and agent_id != owner.decode():
        raise missing("conv", conversation_id)
    return Addressee(owner.decode(), conversation_id, unless_busy)
