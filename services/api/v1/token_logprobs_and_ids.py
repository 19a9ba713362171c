"""Tokens of an answer, for clients that want them: their ids and their probabilities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pydantic_core import from_json

from libs.contracts.bus_messages import Json, JsonObject
from libs.contracts.letta.message_requests import LettaRequest
from services.api.adapters.resource_query_builder import Filter, Resource
from services.api.http.callers import org_of
from services.api.http.handler_dependencies import api_of
from services.api.http.request_parsing import AnyRequest

# What is recorded of the tokens of a step.
STEP_TOKENS = Resource(
    kind="step",
    view="agent.step_view",
    document="jsonb_build_object('step_id', v.id, 'logprobs', v.payload->'logprobs',"
    " 'token_ids', v.payload->'token_ids')",
)


async def token_details(
    request: AnyRequest, body: LettaRequest, run_id: str, messages: list[JsonObject]
) -> dict[str, Json]:
    """The fields of the reply about tokens; nothing is read where nobody wants to know."""
    if not body.return_logprobs and not body.return_token_ids:
        return {}
    values = {"org": org_of(request), "run": run_id}
    found = Filter(["v.org = %(org)s", "v.run_id = %(run)s"], values)
    steps = from_json(await api_of(request).reads.all(STEP_TOKENS, found, order="v.position"))
    logprobs = steps[-1]["logprobs"] if steps and body.return_logprobs else None
    turns: list[Json] | None = [*turns_of(steps, messages)] if body.return_token_ids else None
    return {"logprobs": logprobs, "turns": turns}


def turns_of(steps: Iterable[Any], messages: list[JsonObject]) -> Iterator[JsonObject]:
    """Each answer of the model with its tokens, and the results of its tools behind it."""
    for step in steps:
        own = [message for message in messages if message["step_id"] == step["step_id"]]
        said = [
            message["content"] for message in own if message["message_type"] == "assistant_message"
        ]
        yield {
            "role": "assistant",
            "content": str(said[0]) if said else None,
            "output_ids": step["token_ids"],
            "output_token_logprobs": with_ids(step),
            "tool_name": None,
        }
        for message in own:
            if message["message_type"] == "tool_return_message":
                yield {
                    "role": "tool",
                    "content": message["tool_return"],
                    "output_ids": None,
                    "output_token_logprobs": None,
                    "tool_name": message["name"],
                }


def with_ids(step: Any) -> list[Json] | None:
    """The probability and the id of each token, where the model said both of all."""
    content, ids = (step["logprobs"] or {}).get("content") or [], step["token_ids"] or []
    if not ids or len(content) != len(ids):
        return None
    return [[chance["logprob"], token, None] for chance, token in zip(content, ids, strict=True)]
