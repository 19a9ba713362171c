"""Port to MCP servers, and their answers.

Who asks servers keeps to these words; what implements them (sessions, transports, circuit breakers)
is wired in by the app. Everything here that a server said is bounded by the implementation: pages
of a list, bytes of an answer, seconds of a call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from libs.contracts.bus_messages import Json, JsonObject

type McpTransport = Literal["stdio", "sse", "streamable_http"]
type McpFailureKind = Literal[
    "refused", "unreachable", "timeout", "protocol", "too_large", "breaker_open", "unauthorized"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServerConfig:
    """A server's address. `headers` are complete and readable, the one that authenticates among
    them: keep them out of logs. `version` is greater after each change of the rest. One that may
    ask models (`sampling`) has a session for each agent: `agent_id` says whose is wanted."""

    id: str
    org: str
    name: str
    transport: McpTransport
    version: int
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    grant: str = field(default="", repr=False)  # of a person, as JSON; with its tokens
    sampling: bool = False
    agent_id: str = ""

    @property
    def session_id(self) -> str:
        """Which session of a process is meant."""
        return f"{self.id}/{self.agent_id}" if self.agent_id else self.id


type Keep = Callable[[str], Awaitable[None]]


type Renewed = Callable[[McpServerConfig, str], Awaitable[None]]


class McpPerson(Protocol):
    """A person who may let a server be used, and comes back to `redirect_uri`."""

    redirect_uri: str

    async def go_to(self, url: str) -> None:
        """Ask them to open an address."""

    async def answer(self) -> tuple[str, str, str]:
        """The code, the state and the issuer that they came back with. Raises McpFailed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpTool:
    """A tool as its server describes it; nobody has checked its schemas. `problem` says why there
    is none that could be."""

    name: str
    problem: str = ""
    description: str = ""
    input_schema: JsonObject = field(default_factory=dict)
    output_schema: JsonObject | None = None
    annotations: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpOutcome:
    """The outcome of a call; `error` is the server's word that its tool failed. `text` is the
    content as a model reads it, `structured` the JSON that came with it."""

    status: Literal["success", "error"]
    text: str
    structured: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class McpHealth:
    """The health of a server in this process. `open_until` is when an open circuit breaker lets the
    next call try."""

    state: Literal["unknown", "healthy", "failing", "open"] = "unknown"
    last_error: str = ""
    failures: int = 0
    open_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingMessage:
    """A message that a server wants a model to be shown: text, or V1 content parts."""

    role: Literal["user", "assistant"]
    content: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingRequest:
    """A server's request to a model, within the bounds of the implementation."""

    messages: tuple[SamplingMessage, ...]
    max_tokens: int
    system_prompt: str | None = None
    temperature: float | None = None
    stop_sequences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingAnswer:
    """The model's words and why it stopped: `endTurn`, `stopSequence`, `maxTokens`."""

    text: str
    model: str
    stop_reason: str


type SamplingOutcome = Literal[
    "answered",
    "outside_of_a_call",
    "unsupported",
    "no_agent",
    "too_many",
    "too_large",
    "failed",
    "abandoned",
]


class SamplingRefused(Exception):
    """A server gets no answer of a model; it may read the `words`."""

    def __init__(self, outcome: SamplingOutcome, words: str) -> None:
        super().__init__(words)
        self.outcome: SamplingOutcome = outcome
        self.words = words


# Raises SamplingRefused. It is cancelled when the call is over in which a server asks.
type Sampler = Callable[[SamplingRequest], Awaitable[SamplingAnswer]]


class McpFailed(Exception):
    """A server could not be asked, or gave no usable answer; `words` tell a person why and hold no
    secret. `may_have_taken_effect` says that a call had been sent when it failed."""

    def __init__(
        self, kind: McpFailureKind, words: str, *, may_have_taken_effect: bool = False
    ) -> None:
        super().__init__(words)
        self.kind: McpFailureKind = kind
        self.words = words
        self.may_have_taken_effect = may_have_taken_effect
