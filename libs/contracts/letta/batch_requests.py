"""Bodies of requests about batches that V1 does not have: messages to one agent, and many agents at
once."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, JsonValue, field_validator
from pydantic import model_validator as validate_model

from libs.contracts.letta.message_requests import (
    BATCH_ITEMS_MAX,
    LettaRequest,
    MessageCreate,
    Steps,
)
from libs.contracts.letta.request_size_limits import Name


class BatchItemRequest(LettaRequest):
    """One item: what a message request says. A bare text is a message of the user, and a bare
    message, or that under `message`, is the only one of its item; `custom_id` is shown with its
    result. What would have no effect is refused."""

    model_config = ConfigDict(extra="forbid")

    custom_id: Name | None = None

    @validate_model(mode="before")
    @classmethod
    def _spell_out(cls, item: JsonValue) -> JsonValue:
        if isinstance(item, str):
            return {"input": item}
        if not isinstance(item, dict):
            return item
        if "role" in item and "messages" not in item:
            bare = {name: item[name] for name in item if name in MessageCreate.model_fields}
            besides = {name: item[name] for name in item if name not in bare}
            return besides | {"messages": [bare]}
        if "message" in item and "messages" not in item and "input" not in item:
            message = item["message"]
            rest = {name: value for name, value in item.items() if name != "message"}
            if isinstance(message, dict) and "custom_id" in message:
                rest = {"custom_id": message["custom_id"], **rest}
            return rest | ({"input": message} if _is_text(message) else {"messages": [message]})
        return item

    @validate_model(mode="after")
    def _only_messages(self) -> Self:
        """An item has messages, and no answers to calls: nothing waits for it."""
        if not self.all_messages:
            raise ValueError("`messages` must not be empty")
        if not all(isinstance(message, MessageCreate) for message in self.all_messages):
            raise ValueError("an item has messages only: answer a waiting tool call by itself")
        return self


def _is_text(message: JsonValue) -> bool:
    """Whether a message is a bare text, or bare content parts."""
    return isinstance(message, str | list)


class MessageBatchRequest(BaseModel):
    """Many messages to one agent, which it answers one by one or (`sequential`) one after the other
    in its own conversation."""

    model_config = ConfigDict(extra="forbid")

    items: Annotated[
        list[BatchItemRequest],
        Field(
            min_length=1,
            max_length=BATCH_ITEMS_MAX,
            validation_alias=AliasChoices("items", "messages"),
        ),
    ]
    sequential: bool = False
    keep: bool = False
    callback_url: Name | None = None
    max_steps: Steps | None = None


class CreateAgentsRequest(BaseModel):
    """Many agents to create, each as a single request describes it."""

    model_config = ConfigDict(extra="ignore")

    agents: Annotated[list[JsonValue], Field(min_length=1, max_length=BATCH_ITEMS_MAX)]

    @validate_model(mode="before")
    @classmethod
    def _bare_list(cls, body: JsonValue) -> JsonValue:
        return {"agents": body} if isinstance(body, list) else body


class DeleteAgentsRequest(BaseModel):
    """The ids of many agents to delete."""

    agent_ids: Annotated[
        list[Name],
        Field(
            min_length=1,
            max_length=BATCH_ITEMS_MAX,
            validation_alias=AliasChoices("agent_ids", "ids"),
        ),
    ]

    @validate_model(mode="before")
    @classmethod
    def _bare_list(cls, body: JsonValue) -> JsonValue:
        return {"agent_ids": body} if isinstance(body, list) else body

    @field_validator("agent_ids")
    @classmethod
    def _once_each(cls, agent_ids: list[str]) -> list[str]:
        if len({*agent_ids}) < len(agent_ids):
            raise ValueError("an id stands there twice: name each agent once")
        return agent_ids
