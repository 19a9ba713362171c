"""A request for a batch: read it whole, name the item that is wrong, and build the command."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from libs.contracts.agent.batches import (
    BatchItem,
    StartBatch,
    conversation_of_item,
    run_of_item,
)
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.batch_requests import BatchItemRequest
from libs.contracts.letta.message_requests import STEPS_MAX, LettaBatchRequest
from libs.contracts.letta.runs import run_config
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.request_parsing import AnyRequest, json_of, valid_id
from services.api.v1.approvals_and_client_tools import (
    client_skills_of,
    client_tools_of,
    messages_of,
)
from services.api.v1.message_request import options_of, stored_message

ERRORS_SHOWN_MAX = 10
# The name of a model, or of a function, which pydantic puts where it has tried several.
CHOICE = re.compile(r"[A-Z]\w*|function-.*|[^\[\n]*\[.*")


async def batch_body_of[M: BaseModel](request: AnyRequest, model: type[M]) -> M:
    """The body of a request for a batch; raises the 422 that names the items that are wrong."""
    data = json_of(await request.body())
    try:
        return model.model_validate(data)
    except ValidationError as invalid:
        raise wrong_items(invalid) from None


def wrong_items(invalid: ValidationError) -> Problem:
    """The 422 that says where each wrong value stands, as in `items[37].messages[0].content`."""
    errors = invalid.errors(include_url=False, include_input=False, include_context=False)
    shown = [f"`{place_of(error['loc'])}`: {error['msg']}" for error in errors[:ERRORS_SHOWN_MAX]]
    more = len(errors) - len(shown)
    return Problem(422, {"detail": "; ".join(shown) + (f"; and {more} more" if more else "")})


def place_of(location: Sequence[str | int]) -> str:
    """Where a value stands in a body."""
    place = ""
    for step in location:
        if isinstance(step, int):
            place += f"[{step}]"
        elif not CHOICE.fullmatch(step):
            place += f".{step}" if place else step
    return place or "body"


async def start_batch(
    request: AnyRequest,
    items: Sequence[tuple[str, BatchItemRequest | LettaBatchRequest]],
    *,
    field: str,
    own_conversations: bool,
    **fields: Any,
) -> str:
    """Have a batch of messages accepted, each for the agent whose id stands before it; returns the
    id of the batch. `own_conversations` says whether each item runs in one of its own, `field` how
    the request calls its items. Raises Problem; then nothing is begun."""
    refuse_repeated_ids([body.custom_id for _, body in items], field)
    api = api_of(request)
    batch_id = api.new_id(request, "batch")
    command = StartBatch(
        batch_id=batch_id,
        items=[
            built_item(request, batch_id, number, field, agent_id, body, own_conversations)
            for number, (agent_id, body) in enumerate(items)
        ],
        field=field,
        **fields,
    )
    await api.send(request, command, message_id=f"create-{batch_id}")
    return batch_id


def refuse_repeated_ids(custom_ids: Sequence[str | None], field: str) -> None:
    """Raise the 422 that names the item whose `custom_id` another has: results would not say whose
    they are."""
    first: dict[str, int] = {}
    for number, custom_id in enumerate(custom_ids):
        if custom_id is not None and first.setdefault(custom_id, number) != number:
            detail = f"`{field}[{number}].custom_id`: {field}[{first[custom_id]}] has it: give each"
            raise Problem(422, {"detail": f"{detail} item its own"})


def built_item(
    request: AnyRequest,
    batch_id: str,
    number: int,
    field: str,
    agent_id: str,
    body: BatchItemRequest | LettaBatchRequest,
    own_conversation: bool,
) -> BatchItem:
    """An item with the ids that follow from its batch and its number. Raises the 422 that names it
    where it asks for what does not go together."""
    now, run_id = api_of(request).clock.now(), run_of_item(batch_id, number)
    metadata: JsonObject = {"run_type": "batch", "batch_id": batch_id, "batch_item": number}
    try:
        if not 1 <= body.max_steps <= STEPS_MAX:
            detail = f"`max_steps` must be between 1 and {STEPS_MAX}"
            raise Problem(422, {"detail": detail})
        return BatchItem(
            run=run_config(
                body,
                id=run_id,
                agent_id=valid_id("agent", agent_id),
                conversation_id=conversation_of_item(batch_id, number)
                if own_conversation
                else None,
                created_at=now,
                background=True,
                metadata=metadata,
            ),
            messages=[
                stored_message(run_id, index, message, now)
                for index, message in enumerate(messages_of(body))
            ],
            max_steps=body.max_steps,
            options=options_of(body),
            structured_summaries=body.include_compaction_messages,
            client_tools=client_tools_of(body),
            client_skills=client_skills_of(body),
            custom_id=body.custom_id,
        )
    except Problem as wrong:
        detail = f"`{field}[{number}]`: {wrong.body['detail']}"
        raise Problem(wrong.status, {"detail": detail}) from None
