"""The bodies of requests that route messages; V1 has none of them."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from libs.contracts.groups.routing import (
    RECIPIENTS_MAX,
    ROUTING_SECONDS_DEFAULT,
    ROUTING_SECONDS_MAX,
    STAGES_MAX,
    AwardRule,
    Pattern,
)
from libs.contracts.letta.capabilities import CapabilityName
from libs.contracts.letta.enums import MessageRole
from libs.contracts.letta.message_requests import (
    MAX_STEPS_DEFAULT,
    STEPS_MAX,
    Content,
    MessageCreate,
)
from libs.contracts.letta.request_size_limits import MESSAGES_MAX, Name, Names

type BidBound = Annotated[float, Field(ge=-1e15, le=1e15)]


class RoutedMessages(BaseModel):
    """The messages to be routed, in V1's two forms, and the limits."""

    model_config = ConfigDict(extra="forbid")

    messages: (
        Annotated[list[MessageCreate], Field(min_length=1, max_length=MESSAGES_MAX)] | None
    ) = None
    input: Content | None = None
    max_steps: Annotated[int, Field(ge=1, le=STEPS_MAX)] = MAX_STEPS_DEFAULT
    tags: Names | None = None
    agent_id: Name | None = None
    caller_run_id: Name | None = None
    deadline_seconds: Annotated[int, Field(ge=1, le=ROUTING_SECONDS_MAX)] = ROUTING_SECONDS_DEFAULT

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.messages is None) == (self.input is None):
            raise ValueError("Send either 'input' or 'messages', one of them.")
        if self.input is not None:
            self.messages = [MessageCreate(role=MessageRole.user, content=self.input)]
        return self


class AwardWanted(BaseModel):
    """Which bid wins."""

    model_config = ConfigDict(extra="forbid")

    prefer: Annotated[str, Field(pattern="^(lowest|highest)$")] = "lowest"
    at_least: BidBound | None = None
    at_most: BidBound | None = None

    @model_validator(mode="after")
    def _bounds_fit(self) -> Self:
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise ValueError("`at_least` is above `at_most`: no bid could win")
        return self

    def rule(self) -> AwardRule:
        """The same as the strategy reads it."""
        return AwardRule.model_validate(self.model_dump())


class RouteRequest(RoutedMessages):
    """A message by any pattern, and who is to get it. In the `background` the answer comes at
    once, without those of the agents."""

    pattern: Pattern = "one"
    capability: CapabilityName | None = None
    capabilities: Annotated[list[CapabilityName], Field(max_length=STAGES_MAX)] | None = None
    agent_ids: Annotated[list[Name], Field(max_length=RECIPIENTS_MAX)] | None = None
    topic: CapabilityName | None = None
    award: AwardWanted | None = None
    tell_losers: bool = True
    background: bool = False
