"""Steps of runs: what each model call was, and what clients say of it."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import Response
from pydantic import Field
from pydantic_core import from_json, to_json

from libs.contracts.agent.run_replays import ShowModelRequest
from libs.contracts.agent.steps import AnnotateStep
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta.message_requests import Moment
from libs.contracts.letta.request_size_limits import Name, Names
from services.api.adapters.agents.project_queries import AGENTS_OF_PROJECT
from services.api.adapters.conversations.step_sql_expressions import (
    MODEL_NAME,
    PROJECT,
    STEP,
    STEP_METRICS,
    STEP_TRACE,
)
from services.api.adapters.resource_query_builder import Resource, Where, any_of
from services.api.http.callers import org_of
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import PAGE_ITEMS_MAX, AnyRequest, Page, body_of, query_of
from services.api.openapi.operation import get, patch
from services.api.v1.read_model_responses import answer_document, answer_page, document_of, slice_of

# By its handle, or by its name alone, in the index of names.
MADE_BY = f"{{}} in (v.model, {MODEL_NAME})"
NAMED = f"{MODEL_NAME} = any(array[{{}}::text, {MODEL_NAME.replace('v.model', '{}::text')}])"
OF_PROJECT = f"v.agent_id in ({AGENTS_OF_PROJECT})"

STEPS = Resource(kind="step", view="agent.step_view", document=STEP)

Feedback = Literal["positive", "negative"]


class StepPage(Page):
    """A page of steps."""

    limit: Annotated[int | None, Field(ge=0, le=PAGE_ITEMS_MAX)] = 50
    order_by: Literal["created_at"] = "created_at"
    start_date: Annotated[Moment | None, Where("v.created_at > {}")] = None
    end_date: Annotated[Moment | None, Where("v.created_at < {}")] = None
    model: Annotated[Name | None, Where(MADE_BY, search=NAMED)] = None
    agent_id: Annotated[Name | None, Where("v.agent_id = {}", key=True)] = None
    trace_ids: Annotated[
        Names | None,
        Where(
            "v.id in (select t.id from agent.traced_step_view t"
            " where t.trace_id = any({}) and t.org = v.org)",
            key=True,
        ),
    ] = None
    feedback: Annotated[Feedback | None, Where("v.feedback = {}")] = None
    has_feedback: Annotated[
        bool | None, Where("v.feedback is not null", otherwise="v.feedback is null")
    ] = None
    tags: Annotated[Names | None, any_of("v.tags && {}")] = None
    project_id: Annotated[Name | None, Where(f"{{}} = {PROJECT}", search=OF_PROJECT)] = None


class StepsOfRunPage(Page):
    """A page of a run's steps."""

    order_by: Literal["created_at"] = "created_at"


class StepMessagePage(Page):
    """A page of a step's messages."""

    order: Literal["asc", "desc"] = "asc"
    order_by: Literal["created_at"] = "created_at"


@get("/v1/steps", "steps", query=StepPage)
async def list_steps(request: AnyRequest) -> Response[bytes]:
    """List steps, the newest first."""
    return await answer_page(request, STEPS, query_of(request, StepPage))


@get("/v1/steps/{step_id:str}", "step")
async def retrieve_step(request: AnyRequest, step_id: str) -> Response[bytes]:
    """Retrieve a step by its id."""
    return await answer_document(request, STEPS, step_id)


@get("/v1/steps/{step_id:str}/metrics", "how long the step took")
async def retrieve_step_metrics(request: AnyRequest, step_id: str) -> Response[bytes]:
    """Retrieve how long the parts of a step took."""
    return await answer_document(request, STEPS, step_id, document=STEP_METRICS)


@get(
    ["/v1/steps/{step_id:str}/trace", "/v1/telemetry/{step_id:str}"],
    "what the model was asked and answered",
)
async def retrieve_step_trace(request: AnyRequest, step_id: str) -> Response[bytes]:
    """Retrieve what is recorded of the model call of a step."""
    return await answer_document(request, STEPS, step_id, document=STEP_TRACE)


@get("/v1/steps/{step_id:str}/request", "what the model would be asked")
async def retrieve_model_request(request: AnyRequest, step_id: str) -> Response[bytes]:
    """Retrieve what the model was asked in a step, in its provider's words, as the log tells it;
    `notes` say what of it is not as it was."""
    run_id = str((await place_of(request, step_id))["run_id"])
    command = ShowModelRequest(run_id=run_id, step_id=step_id)
    shown = (await api_of(request).send(request, command)).result
    place, asked = {"step_id": step_id, "run_id": run_id}, str(shown["payload"])
    return raw(
        b'%b,"request":%b,"notes":%b}'
        % (to_json(place)[:-1], asked.encode(), to_json(shown["notes"]))
    )


@get("/v1/steps/{step_id:str}/messages", "messages", query=StepMessagePage)
async def list_messages_of_step(request: AnyRequest, step_id: str) -> Response[bytes]:
    """List the messages of a step; with the first step of a run go those that were sent."""
    page = query_of(request, StepMessagePage)
    known = await place_of(request, step_id)
    messages, run_id = api_of(request).messages, str(known["run_id"])
    return raw(await messages.messages_of_step(org_of(request), run_id, step_id, slice_of(page)))


@patch("/v1/steps/{step_id:str}/feedback", "step", body=bodies.ModifyFeedbackRequest)
async def rate_step(request: AnyRequest, step_id: str) -> Response[bytes]:
    """Say whether a step was good; without feedback what was said before is taken back."""
    body = await body_of(request, bodies.ModifyFeedbackRequest)
    changes: JsonObject = {"feedback": body.feedback}
    if body.tags is not None:
        changes["tags"] = [*body.tags]
    return await annotate(request, step_id, changes)


@patch("/v1/steps/{step_id:str}/transaction/{transaction_id:str}", "step")
async def set_transaction(
    request: AnyRequest, step_id: str, transaction_id: Name
) -> Response[bytes]:
    """Say in which transaction of the client's a step was."""
    return await annotate(request, step_id, {"tid": transaction_id})


async def annotate(request: AnyRequest, step_id: str, changes: JsonObject) -> Response[bytes]:
    """The step, once what is said of it is kept."""
    known = await place_of(request, step_id)
    command = AnnotateStep(
        agent_id=str(known["agent_id"]),
        conversation_id=str(known["conversation_id"]),
        step_id=step_id,
        changes=changes,
    )
    await api_of(request).send(request, command)
    return await answer_document(request, STEPS, step_id)


async def place_of(request: AnyRequest, step_id: str) -> JsonObject:
    """The run, the conversation and the agent of a step; raises the 404 that names it."""
    place = (
        "json_build_object('run_id', v.run_id, 'conversation_id', v.conversation_id,"
        " 'agent_id', v.agent_id)"
    )
    known: JsonObject = from_json(await document_of(request, STEPS, step_id, document=place))
    return known
