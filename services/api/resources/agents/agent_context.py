"""Context of an agent: its context window, its system prompt, its summary."""

from __future__ import annotations

from typing import Any

from litestar import Response
from pydantic import BaseModel
from pydantic_core import to_json

from libs.contracts.agent.compaction import ClearContext, ListLeftOut, ShowLeftOut
from libs.contracts.agent.conversations import (
    PreviewSystemPrompt,
    RecompileConversation,
    main_conversation,
)
from libs.contracts.agent.runs import PreviewModelRequest
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta.request_size_limits import Name
from services.api.adapters.resource_query_builder import filter_of
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Query, parse, query_of, valid_id
from services.api.openapi.operation import delete, get, patch, post
from services.api.resources.agents.agents import AGENTS
from services.api.resources.memory.passages import OF_AGENT, PASSAGES
from services.api.v1.agent_documents import TOOLS
from services.api.v1.as_of import AsOf, seen_at
from services.api.v1.compaction_request import compact
from services.api.v1.context_window import context_window_json
from services.api.v1.message_request import Addressee, MessageRequest, read_request
from services.api.v1.read_model_responses import answer_document, document_of
from services.api.v1.summary_request import SummarizeRequest, summarize

AGENT_AND_TOOLS = (
    f"'{{' || v.body || ', \"tools\": ' || {TOOLS}::text || ', \"created_by_id\": '"
    " || coalesce(to_json(v.fields->>'created_by_id')::text, 'null') || '}'"
)


LEFT_OUT = "/v1/agents/{agent_id:str}/context/left-out"


class ConversationQuery(Query):
    """Of which conversation; without one, of the agent's own."""

    conversation_id: Name | None = None


class ContextQuery(AsOf, ConversationQuery):
    """Of which conversation, and when."""


class Recompilation(Query):
    """The options of a new system prompt. Its time is always the present one."""

    update_timestamp: bool = False
    dry_run: bool = False


class ResetMessages(BaseModel):
    """The options of a conversation's new beginning."""

    add_default_initial_messages: bool = False


@get("/v1/agents/{agent_id:str}/context", "context window", query=ContextQuery)
async def retrieve_context_window(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Retrieve what fills the context window of an agent."""
    asked = query_of(request, ContextQuery)
    async with seen_at(request, agent_id, asked.at):
        return await context_window_of(request, agent_id, asked.conversation_id)


@get(LEFT_OUT, "what is left out", query=ConversationQuery)
async def list_left_out(request: AnyRequest, agent_id: str) -> JsonObject:
    """List what an agent's model is not shown because its provider refused it, with the reasons;
    `on_trial` says that it is shown with the next request, to see whether it is still refused."""
    return await left_out(request, agent_id)


@delete(LEFT_OUT, "what is left out", query=ConversationQuery)
async def show_left_out(request: AnyRequest, agent_id: str) -> JsonObject:
    """Show an agent's model again all that its provider refused."""
    await api_of(request).send(request, ShowLeftOut(**conversation_of(request, agent_id)))
    return await left_out(request, agent_id)


async def left_out(request: AnyRequest, agent_id: str) -> JsonObject:
    """The omitted parts of the conversation."""
    return (
        await api_of(request).send(request, ListLeftOut(**conversation_of(request, agent_id)))
    ).result


def conversation_of(request: AnyRequest, agent_id: str) -> dict[str, Any]:
    """The conversation that is asked about, as fields of a command."""
    asked = query_of(request, ConversationQuery).conversation_id
    own = asked in (None, "default", agent_id)
    agent = valid_id("agent", agent_id)
    return {
        "agent_id": agent,
        "conversation_id": main_conversation(agent) if own else valid_id("conv", f"{asked}"),
    }


async def context_window_of(
    request: AnyRequest, agent_id: str, asked: str | None
) -> Response[bytes]:
    """The content of a conversation's context window. Raises Problem."""
    api = api_of(request)
    agent = await document_of(request, AGENTS, agent_id, document=AGENT_AND_TOOLS)
    own = asked in (None, "default", agent_id)
    conversation = main_conversation(agent_id) if own else str(asked)
    shown = await api.context.in_context(org_of(request), agent_id, conversation)
    if not shown:
        raise Problem(404, {"detail": f"Conversation with ID {asked} not found"})
    count = await api.context.message_count(org_of(request), agent_id, conversation)
    remembered = filter_of(Query(), org_of(request)).by_key(OF_AGENT, agent=agent_id)
    passages = await api.reads.count(PASSAGES, remembered)
    chars = len(agent) + sum(len(message.written) for message in shown)
    windows = api.text_works.context_windows
    return raw(
        await windows.run(request, chars, context_window_json, agent, shown, count, passages)
    )


@post("/v1/agents/{agent_id:str}/summarize", "summary", body=SummarizeRequest)
async def summarize_agent(request: AnyRequest, agent_id: str) -> JsonObject:
    """Have the older part of an agent's conversation summarised, and show models the summary; with
    any field of a summary of its own, have that written instead, which changes no conversation."""
    asked = parse(await request.body() or b"{}", SummarizeRequest)
    to = Addressee(valid_id("agent", agent_id), main_conversation(agent_id))
    if asked.wants_summary:
        return await summarize(request, to.agent_id, asked)
    return await compact(request, to, asked.as_compaction())


@post(
    [
        "/v1/agents/{agent_id:str}/recompile",
        "/v1/agents/{agent_id:str}/system-prompt/recompile",
    ],
    "system prompt",
    query=Recompilation,
)
async def recompile_agent(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Compile the system prompt of an agent anew, or (`dry_run`) show what it would be."""
    api, main = api_of(request), main_conversation(valid_id("agent", agent_id))
    if query_of(request, Recompilation).dry_run:
        preview = PreviewSystemPrompt(agent_id=agent_id, conversation_id=main)
        return raw(to_json((await api.send(request, preview)).result["content"]))
    await api.send(request, RecompileConversation(agent_id=agent_id, conversation_id=main))
    return raw(await api.messages.system_message(org_of(request), main))


@post(
    "/v1/agents/{agent_id:str}/messages/preview-raw-payload",
    "what the model would be asked",
    body=bodies.LettaStreamingRequest,
)
async def preview_model_request(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Show what an agent's model would be asked for these messages, in its provider's words."""
    asked = await read_request(request, agent_id, bodies.LettaStreamingRequest)
    return await preview(request, asked)


async def preview(request: AnyRequest, asked: MessageRequest[Any]) -> Response[bytes]:
    """The next request to the model; nothing is recorded of it."""
    run = asked.command
    command = PreviewModelRequest(
        agent_id=run.agent_id,
        conversation_id=run.conversation_id,
        run=run.run,
        messages=run.messages,
    )
    shown = (await api_of(request).send(request, command)).result
    return raw(str(shown["payload"]).encode())


@patch("/v1/agents/{agent_id:str}/reset-messages", "agent", body=ResetMessages)
async def reset_messages(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Show models nothing of an agent's conversation any more; its history stays."""
    parse(await request.body() or b"{}", ResetMessages)
    conversation = main_conversation(valid_id("agent", agent_id))
    command = ClearContext(agent_id=agent_id, conversation_id=conversation)
    await api_of(request).send(request, command)
    return await answer_document(request, AGENTS, agent_id)
