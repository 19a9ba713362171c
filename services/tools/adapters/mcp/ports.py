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
class McpResource:
    """A resource that a server offers to read."""

    uri: str
    name: str = ""
    description: str = ""
    mime_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpResourceContent:
    """A part of a resource: text, or bytes in base64."""

    uri: str
    mime_type: str = ""
    text: str | None = None
    blob: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class McpPromptArgument:
    """An argument that a prompt is made with."""

    name: str
    description: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class McpPrompt:
    """A prompt that a server offers."""

    name: str
    description: str = ""
    arguments: tuple[McpPromptArgument, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class McpPromptMessage:
    """A message of a prompt; content that is not text is said in words."""

    role: Literal["user", "assistant"]
    text: str


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


class McpConnections(Protocol):
    """Sessions with MCP servers, opened when they are needed, and shared by calls.

    Every method but `refusal_of`, `health`, `forget` and `close` raises McpFailed, within the
    deadlines of the implementation at the latest; cancelling one leaves the session usable or ends
    it. A session belongs to a configuration's `id` and `version`: a newer version ends the older
    one's.
    """

    def refusal_of(self, config: McpServerConfig) -> str:
        """Why this server may not be connected to at all, and how that is changed; empty if it may.
        Costs nothing: no name is looked up and nothing is started."""

    def keep_renewed(self, keep: Renewed) -> None:
        """Have tokens kept that a server renews."""

    async def authorize(self, config: McpServerConfig, person: McpPerson, keep: Keep) -> None:
        """Have a person let a server be used; what it grants is kept before this returns. Takes as
        long as they do."""

    async def list_tools(self, config: McpServerConfig) -> list[McpTool]:
        """Its tools, of all pages."""

    async def call_tool(
        self,
        config: McpServerConfig,
        name: str,
        arguments: JsonObject,
        *,
        seconds: float,
        sampler: Sampler | None = None,
    ) -> McpOutcome:
        """The outcome of a call, after `seconds` at the latest; it is not sent a second time,
        unless the server refused it unseen because it knows the session no more. A server that may
        ask models is answered by the `sampler` meanwhile."""

    async def list_resources(self, config: McpServerConfig) -> list[McpResource]:
        """Its resources, of all pages."""

    async def read_resource(self, config: McpServerConfig, uri: str) -> list[McpResourceContent]:
        """The parts of a resource."""

    async def list_prompts(self, config: McpServerConfig) -> list[McpPrompt]:
        """Its prompts, of all pages."""

    async def get_prompt(
        self, config: McpServerConfig, name: str, arguments: Mapping[str, str]
    ) -> list[McpPromptMessage]:
        """The messages of a prompt."""

    async def ping(self, config: McpServerConfig) -> None:
        """Find out whether it answers."""

    def health(self, config_id: str) -> McpHealth:
        """The health of a server in this process."""

    async def forget(self, config_id: str) -> None:
        """End the session and the process of a server that was changed or deleted, and its breaker.
        Safe to repeat, and for servers that are not known."""

    async def close(self) -> None:
        """End all sessions and processes."""
