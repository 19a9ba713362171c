"""Agents over an API of plain words, beside the one of V1: an agent is named by its name or its id,
made from JSON or from its TOML file, and asked with one text. The same services answer."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import Response
from litestar.types import ExceptionHandlersMap
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json, to_json

from libs.agent_toml.definition import AgentDefinition
from libs.agent_toml.requests import to_create_request
from libs.contracts.agent.conversations import main_conversation
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta.request_size_limits import Name, Text
from services.api.adapters.resource_query_builder import Where, any_of
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Page, Query, model_of
from services.api.openapi.operation import delete, get, post
from services.api.resources.agents.agents import AGENTS, created_agent, deleted_agent
from services.api.resources.conversations.agent_messages import whole_answer
from services.api.v1.agent_documents import document_with
from services.api.v1.message_request import Addressee, address
from services.api.v1.native_agents import (
    agents_filter,
    ids_named,
    name_conflict,
    named_agent,
    native_document,
)
from services.api.v1.native_bodies import native_body, native_query
from services.api.v1.native_definitions import TOML_TYPES, definition_in
from services.api.v1.native_problems import on_native_exception, wrong_fields_as_unprocessable
from services.api.v1.read_model_responses import answer_page, document_of

AGENT = "/agents/{agent_id:str}"
SHOWN = document_with(("agent.blocks", "agent.tags", "agent.tools"))
IN_NATIVE_FORM: ExceptionHandlersMap = {Exception: on_native_exception}
PAGE_AGENTS_MAX = 100


class NativeAgentPage(Query):
    """A page of agents; `after` is the `next` of the page before."""

    model_config = ConfigDict(extra="forbid")

    after: Name | None = None
    limit: Annotated[int, Field(ge=1, le=PAGE_AGENTS_MAX)] = 50
    order: Literal["asc", "desc"] = "desc"
    name: Annotated[Name | None, Where("v.name = {}")] = None
    tag: Annotated[Name | None, any_of("v.tags && array[{}::text]")] = None


class NativeMessage(BaseModel):
    """A message to an agent, as by a user."""

    model_config = ConfigDict(extra="forbid")

    message: Annotated[Text, Field(min_length=1)]


@get("/agents", "page of agents", query=NativeAgentPage, exception_handlers=IN_NATIVE_FORM)
async def list_native_agents(request: AnyRequest) -> Response[bytes]:
    """List agents, the newest first. `next` leads to the next page, and is null on the last."""
    asked = native_query(request, NativeAgentPage)
    one_more = Page(after=asked.after, limit=asked.limit + 1, order=asked.order)
    found = agents_filter(request, asked)
    answer = await answer_page(request, AGENTS, one_more, found, document=SHOWN)
    documents = from_json(answer.content)
    agents = [native_document(agent) for agent in documents[: asked.limit]]
    following = agents[-1]["id"] if len(documents) > asked.limit else None
    return raw(to_json({"agents": agents, "next": following}))


@post(
    "/agents",
    "native agent",
    body=AgentDefinition,
    also_takes=TOML_TYPES,
    status_code=201,
    exception_handlers=IN_NATIVE_FORM,
)
async def create_native_agent(request: AnyRequest) -> Response[bytes]:
    """Create an agent as JSON or TOML describes it, in the form of an agent's file. Its name must
    be free. What the file has besides the agent, such as schedules, `heeler apply` makes."""
    definition, warnings = await definition_in(request)
    body = model_of({**to_create_request(definition)}, bodies.CreateAgent)
    agent_id = api_of(request).new_id(request, "agent")
    ids = await ids_named(request, AGENTS, definition.name)
    if ids and agent_id not in ids:
        raise name_conflict(definition.name, ids)
    with wrong_fields_as_unprocessable():
        await created_agent(request, body, agent_id)
    document = await document_of_agent(request, agent_id)
    answer = raw(to_json({**document, "warnings": warnings}), 201)
    answer.headers["location"] = f"/agents/{agent_id}"
    return answer


@get(AGENT, "native agent", exception_handlers=IN_NATIVE_FORM)
async def retrieve_native_agent(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Retrieve an agent by its id or its name, which only one agent may have."""
    return raw(to_json(await document_of_agent(request, await named_agent(request, AGENTS))))


@delete(AGENT, "nothing", status_code=204, exception_handlers=IN_NATIVE_FORM)
async def delete_native_agent(request: AnyRequest, agent_id: str) -> None:
    """Delete an agent with its messages, its runs and the blocks that only it has."""
    await deleted_agent(request, await named_agent(request, AGENTS))


@post(
    f"{AGENT}/message", "answer of an agent", body=NativeMessage, exception_handlers=IN_NATIVE_FORM
)
async def send_native_message(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Send a text to an agent and get its answer, with the run and the messages that led to it."""
    sent = await native_body(request, NativeMessage)
    found = await named_agent(request, AGENTS)
    body = bodies.LettaStreamingRequest.model_validate(
        {"messages": [{"role": "user", "content": sent.message}]}
    )
    asked = await address(request, body, Addressee(found, main_conversation(found)))
    reply = await whole_answer(request, asked)
    return raw(to_json(answer_document(reply, found, asked.command.run.id)))


def answer_document(reply: JsonObject, agent_id: str, run_id: str) -> JsonObject:
    """An agent's answer: its words, of several messages each in a line of its own, and the steps
    before."""
    match reply:
        case {"messages": [*messages], "stop_reason": {"stop_reason": reason}, "usage": usage}:
            said = [
                text_of(message)
                for message in messages
                if isinstance(message, dict) and message["message_type"] == "assistant_message"
            ]
            runs = [message["run_id"] for message in messages if isinstance(message, dict)]
            return {
                "agent_id": agent_id,
                "answer": "\n".join(said),
                "run_id": next((run for run in runs if run), run_id),
                "stop_reason": reason,
                "messages": messages,
                "usage": usage,
            }
    raise AssertionError("an answer has messages, a reason and its usage")


def text_of(message: JsonObject) -> str:
    """The words of a message, whose content may be in parts."""
    content = message["content"]
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


async def document_of_agent(request: AnyRequest, agent_id: str) -> JsonObject:
    """An agent as the native API shows it. Raises the 404 where it is gone."""
    return native_document(from_json(await document_of(request, AGENTS, agent_id, document=SHOWN)))
