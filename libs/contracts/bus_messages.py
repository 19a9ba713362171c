"""Base of every message: a command, an event, a delta; and the replies to commands.

Names. A class statement names the service and one topic, as in
`class StartRun(RequestAnswer, service="agent", topic="run.start")`. From the topic come the NATS
subject (`agent.command.run.start.<org>.<id>`), the topic column in Postgres and the heading in the
docs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from operator import is_, not_
from typing import Annotated, Any, ClassVar, Literal

from eventsourcing.domain import CanMutateAggregate
from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter

from libs.contracts import deferred_validation  # noqa: F401

type Json = JsonValue
type JsonObject = dict[str, JsonValue]

# For `exclude_if`, as `not_` is for what is empty: asked of most fields of each message, and so no
# function of Python.
is_none = partial(is_, None)

DEFAULT_ORG = "org-00000000-0000-4000-8000-000000000000"
DEFAULT_USER = "user-00000000-0000-4000-8000-000000000000"


class Value(BaseModel):
    """An immutable part of a message; unknown fields are ignored, so that additions are safe."""

    model_config = ConfigDict(frozen=True, extra="ignore")


@dataclass(frozen=True, slots=True)
class Context:
    """The sender of a message, its organisation, and its correlation. Travels in the headers.

    `traceparent` is the span that it was sent in, as W3C writes it; empty where nobody traces.
    `sent_at` is when a message that arrived was sent for the first time, by the clock of the bus,
    as ISO 8601. One clock for all senders; but what is held up before it reaches the bus, by a
    network or a frozen sender, counts as sent so much later.
    `fingerprint` says which request a client gave the name `message_id` to; empty where the name is
    the sender's own, and nobody can give it to something else.
    """

    message_id: str
    org: str = DEFAULT_ORG
    actor: str = DEFAULT_USER
    correlation_id: str = ""
    causation_id: str = ""
    traceparent: str = ""
    sent_at: str = ""
    fingerprint: str = ""

    def follow_up(self, message_id: str) -> Context:
        """The context of a message that this message causes."""
        return replace(
            self,
            message_id=message_id,
            causation_id=self.message_id,
            sent_at="",
            fingerprint="",
        )


class NewerVersion(Exception):
    """A topic, or a version of one, that this process does not know: a newer process of the same
    service does. It is no failure of the message, and is never counted as one."""


class Command(Value):
    """An imperative. It may be refused; handled twice it has the effect of once: its reply is kept
    for whoever sends it again, unless it says that it keeps none, because it changes nothing.

    An older process ignores a field that it does not know. Where it must not, or where a field may
    have a value that it cannot read, `schema_version` is raised: then it leaves the command alone.
    """

    service: ClassVar[str]
    topic: ClassVar[str]
    schema_version: ClassVar[int] = 1
    keeps_reply: ClassVar[bool] = True

    @property
    def target(self) -> str:
        """The id that the command is about; the last token of its subject."""
        raise NotImplementedError

    def subject(self, org: str) -> str:
        """The command's subject on the bus: `<service>.command.<topic>.<org>.<target>`."""
        return f"{self.service}.command.{self.topic}.{org}.{self.target}"

    def __init_subclass__(cls, *, service: str = "", topic: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        register(COMMANDS, cls, service, topic)


class Event(BaseModel, CanMutateAggregate[str]):
    """A fact about one aggregate, in the past tense. It may not be refused.

    The three originator fields are columns of the log; everything else is the payload.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    service: ClassVar[str]
    topic: ClassVar[str]
    schema_version: ClassVar[int] = 1
    # Whether processes that do not know it may decide as if it had not happened: it changes nothing
    # of a state that they know. Others leave the aggregate to newer processes.
    additive: ClassVar[bool] = False

    originator_id: str
    originator_version: int
    timestamp: datetime

    def apply(self, aggregate: Any) -> None:
        """Evolve the aggregate: its `when` says how. One that was deleted may begin again."""
        if type(self) in aggregate.begins_with and aggregate.deleted:
            aggregate.begin_again()
        aggregate.when(self)

    @property
    def about(self) -> str:
        """The id that stands last in the subject: the aggregate's, unless the event says better."""
        return self.originator_id

    def payload_json(self) -> str:
        """The payload as JSON text, without the columns of the log."""
        return self.model_dump_json(exclude=LOG_COLUMNS)

    @classmethod
    def upcast(cls, payload: JsonObject, from_version: int) -> JsonObject:
        """Bring an older payload to `schema_version`, one `upcast_v1_v2` step at a time."""
        for version in range(from_version, cls.schema_version):
            payload = getattr(cls, f"upcast_v{version}_v{version + 1}")(payload)
        return payload

    def __init_subclass__(cls, *, service: str = "", topic: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        register(EVENTS, cls, service, topic)


LOG_COLUMNS = {"originator_id", "originator_version", "timestamp"}


class Accepted(Value):
    """The command took effect (now or when it was first seen).

    `fingerprint` is that of the context it was sent in: another one under the same name is refused.
    """

    outcome: Literal["accepted"] = "accepted"
    result: JsonObject = Field(default_factory=dict)
    fingerprint: str = Field(default="", exclude_if=not_)


class Rejected(Value):
    """The command was refused and nothing changed. `code` is one of `REFUSALS`; `details` is what
    a program may want to know besides, such as the run that is in the way."""

    outcome: Literal["rejected"] = "rejected"
    code: str
    reason: str
    details: JsonObject = Field(default_factory=dict, exclude_if=not_)

    @property
    def next_try(self) -> NextTry:
        """When the command may be accepted; a code of a newer process says never."""
        return REFUSALS.get(self.code, "never")


Reply = Annotated[Accepted | Rejected, Field(discriminator="outcome")]
REPLY: TypeAdapter[Accepted | Rejected] = TypeAdapter(Reply)

NOT_FOUND = "not_found"
INVALID = "invalid"
UNPROCESSABLE = "unprocessable"
CONFLICT = "conflict"
TOO_LARGE = "too_large"
UNAVAILABLE = "unavailable"
PARKED = "parked"
BUSY = "busy"  # nothing is wrong with the command: there is no room for it now
RATE_LIMITED = "rate_limited"  # details have `retry_after_seconds`, after which it may come again
PENDING_APPROVAL = "pending_approval"  # calls wait for the client, and it sent something else
# When a command that work needs may be accepted after a refusal: `again` in a moment, `later`, once
# somebody has done something, `anew` under another id, or `never`.
type NextTry = Literal["again", "later", "anew", "never"]
REFUSALS: dict[str, NextTry] = {
    BUSY: "again",
    UNAVAILABLE: "again",
    RATE_LIMITED: "later",
    PENDING_APPROVAL: "later",
    CONFLICT: "anew",
    PARKED: "anew",
    NOT_FOUND: "never",
    INVALID: "never",
    UNPROCESSABLE: "never",
    TOO_LARGE: "never",
}

KEY_REUSED = Rejected(
    code=CONFLICT,
    reason="This Idempotency-Key came before with another request: use a new one for a new request",
)

KEYED = "keyed:"  # how a fingerprint begins that was made with a key


def other_request(fingerprint: str, other: str) -> bool:
    """Whether two fingerprints are of different requests. Without one that is not known, nor where
    an older process has made one of them, without a key."""
    alike = fingerprint.startswith(KEYED) == other.startswith(KEYED)
    return bool(fingerprint and other and alike and fingerprint != other)


COMMANDS: dict[str, type[Command]] = {}
EVENTS: dict[str, type[Event]] = {}


def register[M: (Command, Event)](
    registry: dict[str, type[M]], cls: type[M], service: str, topic: str
) -> None:
    """Set the service and the topic that a class statement names; without them those of its base
    hold. A class with a topic is what that name on the bus means; a name means one class."""
    assert not {"service", "topic"} & vars(cls).keys(), f"{cls} names them in its body"
    if service:
        cls.service = service
    if topic:
        cls.topic = topic
        key = f"{cls.service}.{topic}"
        known = registry.setdefault(key, cls)
        assert known.__qualname__ == cls.__qualname__, f"{key} is both {known} and {cls}"


MARK_LENGTH = 12  # the last group of a UUID


def event_subject(service: str, topic: str, org: str, about: str) -> str:
    """An event's subject on the bus: `<service>.event.<topic>.<org>.<about>`."""
    return f"{service}.event.{topic}.{org}.{about}"


def delta_subject(service: str, aggregate: str, verb: str, org: str, about: str) -> str:
    """`<service>.delta.<aggregate>.<verb>.<org>.<mark>.<about>`: what a stream shows. `progress`
    tells what is history already, `token` what is not yet, `*` means both.

    The mark is how the id ends. A process that gives all that it begins the same mark can hear of
    all of it by one subscription, and of nothing else: see `marked_deltas`.
    """
    return f"{service}.delta.{aggregate}.{verb}.{org}.{about[-MARK_LENGTH:]}.{about}"


def marked_deltas(service: str, aggregate: str, mark: str) -> str:
    """The subjects of all deltas about ids that end with a mark."""
    return f"{service}.delta.{aggregate}.*.*.{mark}.*"
