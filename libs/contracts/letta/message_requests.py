"""The bodies that carry messages to an agent."""

from typing import Literal, Self

from pydantic import AliasChoices, BaseModel, Field, HttpUrl, JsonValue, field_validator
from pydantic import model_validator as validate_model

from libs.contracts.letta.content import ContentPart, ToolReturnPart
from libs.contracts.letta.kinds import MessageCreateType, MessageRole, MessageType

MAX_STEPS_DEFAULT = 50


class ClientToolSchema(BaseModel):
    """A tool that the client runs itself."""

    name: str
    description: str | None = None
    parameters: dict[str, JsonValue] | None = None


class ClientSkillSchema(BaseModel):
    """A skill that only the client's environment knows."""

    name: str
    description: str
    location: str


class ApprovalReturn(BaseModel):
    """The user's yes or no to one tool call."""

    type: Literal["approval"] = "approval"
    tool_call_id: str
    approve: bool
    reason: str | None = None


class ToolReturn(BaseModel):
    """What a tool gave back, as the client reports it."""

    type: Literal["tool"] = "tool"
    tool_return: str | list[ToolReturnPart]
    status: Literal["success", "error"]
    tool_call_id: str
    stdout: list[str] | None = None
    stderr: list[str] | None = None


class MessageCreate(BaseModel):
    """A message to an agent."""

    type: Literal[MessageCreateType.message] | None = MessageCreateType.message
    otid: str | None = None
    group_id: str | None = None
    role: Literal[MessageRole.user, MessageRole.system, MessageRole.assistant]
    content: str | list[ContentPart]
    name: str | None = None
    sender_id: str | None = None
    batch_item_id: str | None = None


class ApprovalCreate(BaseModel):
    """The answer to an approval request, in the new or the deprecated form."""

    type: Literal[MessageCreateType.approval] = MessageCreateType.approval
    otid: str | None = None
    group_id: str | None = None
    approvals: list[ApprovalReturn | ToolReturn] | None = None
    approve: bool | None = None
    approval_request_id: str | None = None
    reason: str | None = None

    @validate_model(mode="after")
    def _fold_in_deprecated_fields(self) -> Self:
        one_answer = self.approve is not None and self.approval_request_id is not None
        if not self.approvals and one_answer:
            self.approvals = [
                ApprovalReturn(
                    tool_call_id=str(self.approval_request_id),
                    approve=bool(self.approve),
                    reason=self.reason,
                )
            ]
        return self


class ToolReturnCreate(BaseModel):
    """The results of the tools that the client ran."""

    type: Literal[MessageCreateType.tool_return] = MessageCreateType.tool_return
    otid: str | None = None
    group_id: str | None = None
    tool_returns: list[ToolReturn]


type MessageInput = MessageCreate | ApprovalCreate | ToolReturnCreate


class LettaRequest(BaseModel):
    """Messages for an agent, and how to answer them."""

    # A plain union: the class names are in the recorded error locations.
    messages: list[MessageCreate | ApprovalCreate | ToolReturnCreate] | None = None
    input: str | list[ContentPart] | None = None
    max_steps: int = MAX_STEPS_DEFAULT
    use_assistant_message: bool = True
    assistant_message_tool_name: str = "send_message"
    assistant_message_tool_kwarg: str = "message"
    include_return_message_types: list[MessageType] | None = None
    enable_thinking: str | bool = True
    client_tools: list[ClientToolSchema] | None = None
    client_skills: list[ClientSkillSchema] | None = None
    override_model: str | None = None
    include_compaction_messages: bool = False
    return_logprobs: bool = False
    top_logprobs: int | None = None
    return_token_ids: bool = False
    override_system: str | None = Field(
        default=None, validation_alias=AliasChoices("override_system", "system")
    )

    @field_validator("messages", mode="before")
    @classmethod
    def _name_the_type(cls, messages: JsonValue) -> JsonValue:
        """An untyped item is an approval if it has an approval's fields, else a message."""
        if isinstance(messages, list):
            return [_with_type(item) for item in messages]
        return messages

    @validate_model(mode="after")
    def _exactly_one_source(self) -> Self:
        if self.input is not None and self.messages is not None:
            raise ValueError("Send either 'input' or 'messages', not both.")
        if self.input is None and self.messages is None:
            raise ValueError("Must specify either 'input' or 'messages'.")
        if self.input is not None:
            self.messages = [MessageCreate(role=MessageRole.user, content=self.input)]
        return self

    @property
    def sent(self) -> list[MessageInput]:
        """The messages, whichever of the two fields they came in."""
        assert self.messages is not None
        return list(self.messages)


def _with_type(item: JsonValue) -> JsonValue:
    if not isinstance(item, dict) or "type" in item:
        return item
    answers = "approval_request_id" in item or "approve" in item
    return {**item, "type": "approval" if answers else "message"}


class LettaStreamingRequest(LettaRequest):
    """Messages for an agent, answered at once or as a stream."""

    streaming: bool = False
    stream_tokens: bool = False
    include_pings: bool = True
    background: bool = False


class ConversationMessageRequest(LettaStreamingRequest):
    """Messages for a conversation, which streams unless told not to."""

    agent_id: str | None = None
    streaming: bool = True


class LettaAsyncRequest(LettaRequest):
    """Messages to be worked on after the reply."""

    callback_url: str | None = None


class LettaBatchRequest(LettaRequest):
    """One agent's share of a batch."""

    agent_id: str


class CreateBatch(BaseModel):
    """Requests to many agents at once."""

    requests: list[LettaBatchRequest]
    callback_url: HttpUrl | None = None


class RetrieveStreamRequest(BaseModel):
    """Where in which run's stream to go on reading."""

    agent_id: str | None = None
    run_id: str | None = None
    otid: str | None = None
    starting_after: int = 0
    include_pings: bool | None = True
    poll_interval: float | None = 0.1
    batch_size: int | None = 100
