"""V1's bodies of requests that send messages, search them, or say something of steps."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    Field,
    HttpUrl,
    JsonValue,
    field_validator,
    model_validator,
)
from pydantic import model_validator as validate_model
from pydantic_core import PydanticCustomError

from libs.contracts.letta.enums import MessageCreateType, MessageRole, MessageType
from libs.contracts.letta.message_content import ContentPart, ToolReturnPart
from libs.contracts.letta.request_size_limits import (
    CONTENT_BYTES_MAX,
    INTEGER_MAX,
    MESSAGES_MAX,
    NAMES_MAX,
    Integer,
    JsonLimit,
    Metadata,
    Name,
    Names,
    Prompt,
    SearchText,
    Text,
)

MAX_STEPS_DEFAULT = 50
BATCH_ITEMS_MAX = 100
STEPS_MAX = 1_000

# Refused by the api, in words of its own.
type Steps = Annotated[int, Field(json_schema_extra={"minimum": 1, "maximum": STEPS_MAX})]

type Content = Annotated[str | list[ContentPart], JsonLimit(bytes_max=CONTENT_BYTES_MAX)]
type MessageTypes = Annotated[list[MessageType], Field(max_length=NAMES_MAX)]
type Lines = Annotated[list[str], JsonLimit(bytes_max=CONTENT_BYTES_MAX)]


class ClientToolSchema(BaseModel):
    """A tool that the client runs itself."""

    name: Name
    description: Text | None = None
    parameters: Metadata | None = None


class ClientSkillSchema(BaseModel):
    """A skill that only the client's environment knows."""

    name: Name
    description: Text
    location: Name


class ApprovalReturn(BaseModel):
    """The user's yes or no to one tool call."""

    type: Literal["approval"] = "approval"
    tool_call_id: Name
    approve: bool
    reason: Text | None = None


class ToolReturn(BaseModel):
    """The result of a tool, as the client reports it."""

    type: Literal["tool"] = "tool"
    tool_return: Annotated[str | list[ToolReturnPart], JsonLimit(bytes_max=CONTENT_BYTES_MAX)]
    status: Literal["success", "error"]
    tool_call_id: Name
    stdout: Lines | None = None
    stderr: Lines | None = None


class MessageCreate(BaseModel):
    """A message to an agent."""

    type: Literal[MessageCreateType.message] | None = MessageCreateType.message
    otid: Name | None = None
    group_id: Name | None = None
    role: Literal[MessageRole.user, MessageRole.system, MessageRole.assistant]
    content: Content
    name: Name | None = None
    sender_id: Name | None = None
    batch_item_id: Name | None = None


class ApprovalCreate(BaseModel):
    """The answer to an approval request, in the new or the deprecated form."""

    type: Literal[MessageCreateType.approval] = MessageCreateType.approval
    otid: Name | None = None
    group_id: Name | None = None
    approvals: (
        Annotated[list[ApprovalReturn | ToolReturn], Field(max_length=MESSAGES_MAX)] | None
    ) = None
    approve: bool | None = None
    approval_request_id: Name | None = None
    reason: Text | None = None

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
    otid: Name | None = None
    group_id: Name | None = None
    tool_returns: Annotated[list[ToolReturn], Field(max_length=MESSAGES_MAX)]


type MessageInput = MessageCreate | ApprovalCreate | ToolReturnCreate


class LettaRequest(BaseModel):
    """Messages for an agent, and how to answer them."""

    # A plain union: the class names are in the recorded error locations.
    messages: (
        Annotated[
            list[MessageCreate | ApprovalCreate | ToolReturnCreate],
            Field(max_length=MESSAGES_MAX),
        ]
        | None
    ) = None
    input: Content | None = None
    max_steps: Steps = MAX_STEPS_DEFAULT
    use_assistant_message: bool = True
    assistant_message_tool_name: Name = "send_message"
    assistant_message_tool_kwarg: Name = "message"
    include_return_message_types: MessageTypes | None = None
    enable_thinking: Annotated[str | bool, JsonLimit()] = True
    client_tools: Annotated[list[ClientToolSchema], Field(max_length=NAMES_MAX)] | None = None
    client_skills: Annotated[list[ClientSkillSchema], Field(max_length=NAMES_MAX)] | None = None
    override_model: Name | None = None
    include_compaction_messages: bool = False
    return_logprobs: bool = False
    top_logprobs: Integer | None = None
    return_token_ids: bool = False
    override_system: Prompt | None = Field(
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
    def all_messages(self) -> list[MessageInput]:
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

    agent_id: Name | None = None
    streaming: bool = True


class LettaAsyncRequest(LettaRequest):
    """Messages to be worked on after the reply."""

    callback_url: Name | None = None


class LettaBatchRequest(LettaRequest):
    """One agent's share of a batch; `custom_id` is shown with its result."""

    agent_id: Name
    custom_id: Name | None = None


class CreateBatch(BaseModel):
    """Requests to many agents at once."""

    requests: Annotated[list[LettaBatchRequest], Field(min_length=1, max_length=BATCH_ITEMS_MAX)]
    callback_url: HttpUrl | None = None


class RetrieveStreamRequest(BaseModel):
    """Where in which run's stream to go on reading."""

    agent_id: Name | None = None
    run_id: Name | None = None
    otid: Name | None = None
    starting_after: Annotated[int, Field(ge=0, le=INTEGER_MAX)] = 0
    include_pings: bool | None = True
    poll_interval: Annotated[float, Field(allow_inf_nan=False)] | None = 0.1
    batch_size: Integer | None = 100


class ModifyFeedbackRequest(BaseModel):
    """A client's opinion of a step; null takes back an earlier one."""

    feedback: Literal["positive", "negative"] | None = None
    tags: Names | None = None


def not_blank(prompt: str) -> str:
    """A prompt that says something."""
    if not prompt.strip():
        raise PydanticCustomError("prompt_empty", "`prompt` needs more than white space")
    return prompt


def object_schema(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    """A JSON schema that can stand for the arguments of a call."""
    if not schema:
        return None
    properties, required = schema.get("properties"), schema.get("required", [])
    if not isinstance(properties, dict) or schema.get("type", "object") != "object":
        raise PydanticCustomError(
            "schema_of_no_object",
            "`response_schema` has to be the JSON schema of an object, with `properties`",
        )
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise PydanticCustomError(
            "schema_required", "`required` of `response_schema` has to be a list of names"
        )
    return schema


type ResponseSchema = Annotated[Metadata | None, AfterValidator(object_schema)]


class GenerateRequest(BaseModel):
    """The question, and the form that the answer has to have."""

    prompt: Annotated[Prompt, Field(min_length=1), AfterValidator(not_blank)]
    system_prompt: Prompt | None = None
    override_model: Name | None = None
    response_schema: ResponseSchema = None


FOUND_MAX = 100


def with_zone(moment: datetime) -> datetime:
    """A time in UTC, as it is without a zone. Raises ValueError beyond the years 1 to 9999."""
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:
        raise ValueError("in UTC this is not within the years 1 to 9999") from None


type Moment = Annotated[datetime, AfterValidator(with_zone)]
type Roles = Annotated[list[MessageRole], Field(max_length=len(MessageRole))]


class MessageSearch(BaseModel):
    """Which messages: those with the words (`fts`), those near in meaning (`vector`), or both."""

    search_mode: Literal["vector", "fts", "hybrid"] = "hybrid"
    agent_id: Name | None = None
    conversation_id: Name | None = None
    limit: Annotated[int, Field(ge=1, le=FOUND_MAX)] = 50
    start_date: Moment | None = None
    end_date: Moment | None = None

    @model_validator(mode="after")
    def _start_is_before_end(self) -> Self:
        if self.start_date and self.end_date and self.start_date > self.end_date:
            raise ValueError("start_date is after end_date: give the earlier one as start_date")
        return self


class SearchAllMessagesRequest(MessageSearch):
    """The words to look for, in all messages that anybody wrote or said."""

    query: SearchText


class MessageSearchRequest(MessageSearch):
    """The same, by what agents are made from, too; without words all messages."""

    query: SearchText | None = None
    roles: Roles | None = None
    project_id: Name | None = None
    template_id: Name | None = None
