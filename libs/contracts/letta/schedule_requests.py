"""The bodies of requests about schedules, in the form of V1 and in the one that has everything.

A body is in one form: `schedule` and `messages` belong to V1's, all that stands in `OUR_FIELDS` to
the other. Letta Code sends V1's with a name, a description and a conversation.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    HttpUrl,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from libs.contracts.letta.enums import MessageRole, MessageType
from libs.contracts.letta.message_content import TextContent
from libs.contracts.letta.message_requests import STEPS_MAX, MessageCreate
from libs.contracts.letta.request_size_limits import NAMES_MAX, Name, Text
from libs.contracts.scheduler.schedule_config import (
    MISSED_SLOTS_MAX,
    RETRIES_MAX,
    Action,
    ActivePolicy,
    FiringMessages,
    GroupMessageAction,
    MessageAction,
    MissedPolicy,
    ScheduleType,
)

V1_FIELDS = ("messages", "schedule")
OUR_FIELDS = (
    *("message", "action", "schedule_type", "scheduled_time", "recurrence_rule", "timezone"),
    *("missed", "missed_slots_max", "if_active", "retries_max"),
)
# What belongs to messages, in both forms.
MESSAGE_FIELDS = ("callback_url", "max_steps", "include_return_message_types")
# A Unix time below this counts seconds, and one above it milliseconds: as seconds it is in the year
# 5138, as milliseconds in March 1973.
SECONDS_BELOW = 1e11
UNIX_TIME_MAX = 2.5e14  # milliseconds, in the year 9892
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment_of_unix_time(value: float) -> datetime:
    """A Unix time of a client in seconds or milliseconds, told apart by its size."""
    return EPOCH + timedelta(milliseconds=value * (1_000 if value < SECONDS_BELOW else 1))


def as_messages(given: Any) -> Any:
    """A text, or one message, as the list of messages that it stands for."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return [given] if isinstance(given, dict) else given


def check_address(address: str, name: str = "callback_url") -> str:
    """The address, as it is, of a callback. Raises ValueError."""
    try:
        TypeAdapter(HttpUrl).validate_python(address)
    except ValidationError:
        example = "https://example.com/callback"
        raise ValueError(f"`{name}`: give the whole address, as in {example}") from None
    return address


def require_answerable(messages: list[MessageCreate]) -> list[MessageCreate]:
    """The messages of a firing, which have something that an agent can answer. Raises
    ValueError."""
    for message in messages:
        parts = message.content if isinstance(message.content, list) else []
        texts = [part.text for part in parts if isinstance(part, TextContent)]
        words = "".join(texts) if parts else str(message.content or "")
        if len(texts) == len(parts) and not words.strip():
            raise ValueError("`content` is empty: say what the agent is to answer")
    if messages and messages[-1].role == MessageRole.assistant:
        raise ValueError(
            "`role` of the last message is 'assistant', and an agent does not answer itself: say"
            " 'user'"
        )
    return messages


def require_answerable_action(action: Action) -> Action:
    """The action, whose messages, if it has any, an agent can answer. Raises ValueError."""
    if isinstance(action, MessageAction | GroupMessageAction):
        require_answerable(action.messages)
    return action


type ScheduledMessages = Annotated[FiringMessages, AfterValidator(require_answerable)]
type MessageOrMessages = Annotated[ScheduledMessages, BeforeValidator(as_messages)]


class V1Schedule(BaseModel):
    """When a schedule is due, in V1's form."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["one-time", "recurring"] = "one-time"
    scheduled_at: Annotated[float, Field(gt=0, le=UNIX_TIME_MAX)] | None = None
    cron_expression: Name | None = None

    @model_validator(mode="after")
    def _has_what_its_type_needs(self) -> Self:
        one_time = self.type == "one-time"
        if one_time and self.scheduled_at is None:
            raise ValueError("A one-time schedule needs `scheduled_at`, a Unix time")
        if one_time and self.cron_expression is not None:
            raise ValueError("Leave out `cron_expression`, or say `type`: 'recurring'")
        if not one_time and self.cron_expression is None:
            raise ValueError("A recurring schedule needs `cron_expression`, as in '0 9 * * mon'")
        if not one_time and self.scheduled_at is not None:
            raise ValueError("Leave out `scheduled_at`, or say `type`: 'one-time'")
        return self


class ScheduleFields(BaseModel):
    """The fields of both the creation and the update of a schedule."""

    model_config = ConfigDict(extra="forbid")

    message: MessageOrMessages | None = None
    action: Annotated[Action, AfterValidator(require_answerable_action)] | None = None
    callback_url: Name | None = None
    max_steps: Annotated[int, Field(ge=1, le=STEPS_MAX)] | None = None
    include_return_message_types: (
        Annotated[list[MessageType], Field(max_length=NAMES_MAX)] | None
    ) = None
    schedule_type: ScheduleType | None = None
    scheduled_time: datetime | None = None
    recurrence_rule: Name | None = None
    timezone: Annotated[Name, Field(min_length=1)] | None = None
    name: Name | None = None
    description: Text | None = None
    conversation_id: Name | None = None
    missed: MissedPolicy | None = None
    missed_slots_max: Annotated[int, Field(ge=1, le=MISSED_SLOTS_MAX)] | None = None
    if_active: ActivePolicy | None = None
    retries_max: Annotated[int, Field(ge=0, le=RETRIES_MAX)] | None = None

    @field_validator("callback_url")
    @classmethod
    def _is_address(cls, address: str | None) -> str | None:
        return address if address is None else check_address(address)

    @field_validator("scheduled_time", mode="before")
    @classmethod
    def _is_a_text(cls, moment: Any) -> Any:
        """Numbers are V1's: there they have a meaning."""
        if moment is not None and not isinstance(moment, str):
            raise ValueError("Give an ISO 8601 time, such as 2030-01-31T09:00:00+01:00")
        return moment

    @field_validator("action", mode="before")
    @classmethod
    def _has_no_unknown_fields(cls, action: Any) -> Any:
        """A field of an action that had no effect would be a mistake that nobody sees."""
        if not isinstance(action, dict):
            return action
        known = FIELDS_OF_ACTIONS.get(str(action.get("type", "message")))
        for name in action:
            if known is not None and name not in known:
                raise ValueError(f"`{name}` is no field of this action: use {', '.join(known)}")
        return action

    @model_validator(mode="after")
    def _one_action(self) -> Self:
        if self.message is not None and self.action is not None:
            raise ValueError("Send either `message` or `action`, one of them")
        if self.action is not None:
            self.refuse_fields(
                MESSAGE_FIELDS, "goes with `message`: put it into `action`, or leave"
            )
        if isinstance(self.action, MessageAction) and self.action.callback_url is not None:
            check_address(self.action.callback_url, "action.callback_url")
        return self

    def refuse_fields(self, names: Iterable[str], why: str) -> None:
        """Raise the error of the first of these fields that has a value."""
        given = next((name for name in names if getattr(self, name) is not None), None)
        if given:
            raise ValueError(f"`{given}` {why} it out")


FIELDS_OF_ACTIONS = {
    kind.model_fields["type"].default: tuple(kind.model_fields)
    for kind in Action.__value__.__origin__.__args__
}


class ScheduleCreate(ScheduleFields):
    """A new schedule of an agent, in one of two forms.

    V1's: `messages` and `schedule`, which is `{"type": "one-time", "scheduled_at": <Unix time>}` or
    `{"type": "recurring", "cron_expression": ...}`. The other: `message` or `action`,
    `schedule_type`, and `scheduled_time` or `recurrence_rule`. `use_sandbox` says where Letta's
    cloud runs the tools of Letta Code; here the server answers, as without it."""

    messages: ScheduledMessages | None = None
    schedule: V1Schedule | None = None
    use_sandbox: bool | None = None
    target_device_id: Name | None = None

    @property
    def is_v1(self) -> bool:
        """Whether it is in V1's form."""
        return self.schedule is not None

    @field_validator("target_device_id")
    @classmethod
    def _is_no_computer(cls, device_id: str | None) -> None:
        """No computers are connected to this server, and what it cannot do is refused."""
        if device_id is not None:
            raise ValueError("No computers are connected to this server: leave it out")

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        of_v1 = [name for name in V1_FIELDS if name in self.model_fields_set]
        ours = [name for name in OUR_FIELDS if name in self.model_fields_set]
        if of_v1 and ours:
            raise ValueError(
                f"`{of_v1[0]}` and `{ours[0]}` are of two forms of schedules: send `messages` and"
                " `schedule`, or `message`, `schedule_type` and what goes with them"
            )
        if of_v1:
            self.require("messages", "schedule")
        else:
            self.require("schedule_type")
            if self.message is None and self.action is None:
                raise ValueError("`message` is missing: say what the agent is to answer")
            self.require_time()
        return self

    def require(self, *names: str) -> None:
        """Raise the error of the first of these fields that is missing."""
        missing = next((name for name in names if getattr(self, name) is None), None)
        if missing == "schedule_type":
            raise ValueError("`schedule_type` is missing: 'one_time' or 'recurring'")
        if missing:
            raise ValueError(f"`{missing}` is missing")

    def require_time(self) -> None:
        """Raise the error of a schedule that does not say when it is due, or twice."""
        if self.schedule_type == "one_time":
            self.refuse_fields(["recurrence_rule"], "goes with 'recurring': leave")
            if self.scheduled_time is None:
                raise ValueError("`scheduled_time` is missing: an ISO 8601 time in the future")
            return
        self.refuse_fields(["scheduled_time"], "goes with 'one_time': leave")
        if self.recurrence_rule is None:
            raise ValueError("`recurrence_rule` is missing: cron, such as '0 9 * * mon-fri'")


class ScheduleUpdate(ScheduleFields):
    """New values of some fields of a schedule; the others stay. `null` takes away a `name` or a
    `conversation_id`, and leaves any other field as it is."""
