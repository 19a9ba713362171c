"""The port to language models, for every provider."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Protocol

from libs.contracts.bus_messages import Rejected
from libs.contracts.letta.model_configs import EmbeddingConfig, LLMConfig
from services.agent.domain.prompts.model_context import ModelRequest
from services.agent.domain.runs.step_results import Failure, ModelReply


class ModelFailed(Exception):
    """The model gave no usable answer; `failure` says why, for the run that asked."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure

    def __reduce__(self) -> tuple[type[ModelFailed], tuple[Failure]]:
        return ModelFailed, (self.failure,)  # from a process of its own


class OddAnswer(Exception):
    """The provider answered with something that is no answer; the words say what was odd."""


class ProviderUnreachable(Exception):
    """A provider does not say which models it has."""


class NoModelList(ProviderUnreachable):
    """A provider answers questions, but has no list of its models: clients name them, and these
    say what the config of a name is."""

    def __init__(
        self,
        endpoint: str,
        named_model: Callable[[str], LLMConfig],
        named_embedding: Callable[[str], EmbeddingConfig] | None,
    ) -> None:
        super().__init__(f"{endpoint} has no list of models")
        self.named_model = named_model
        self.named_embedding = named_embedding


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A chunk of what the model says."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A chunk of what the model thinks; `inner` where it stands among the arguments of a call."""

    text: str
    inner: bool = False


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A chunk of a tool call. The first of a call brings its `name` and no arguments; the others
    bring arguments only. `id` is the call's in all of them; a reply's calls come one after the
    other."""

    id: str
    name: str | None = None
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Finished:
    """The whole answer; the last event of every stream."""

    reply: ModelReply


ModelDelta = TextDelta | ReasoningDelta | ToolCallDelta
ModelEvent = ModelDelta | Finished


class ModelLister(Protocol):
    """A list of the models under the handles `<name>/<model>`."""

    name: str

    async def models(self) -> tuple[list[LLMConfig], list[EmbeddingConfig]]:
        """The models that are offered. Raises ProviderUnreachable, and NoModelList."""

    async def close(self) -> None:
        """Close all open connections; safe to repeat."""


class Provider(ModelLister, Protocol):
    """One provider of models, which answers for the handles `<name>/<model>`."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Ask a model: the chunks of its answer as they come, if the request wants them, and last
        the whole, which is the sum of the chunks. Raises ModelFailed. A caller that stops early
        closes the stream, and with it the connection to the model."""

    async def payload(self, request: ModelRequest) -> bytes:
        """The body of a request to the model, as JSON in the provider's words."""

    def window_tokens(self, model: str) -> int | None:
        """The size of a model's window in tokens, where its server has said so in an error."""


class Models(Protocol):
    """All providers behind one door."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """The answer of the model that the request's agent uses, as `Provider.stream`."""

    async def reply(self, request: ModelRequest) -> ModelReply:
        """The whole answer of the model that the request's agent uses. Raises ModelFailed."""

    async def payload(self, request: ModelRequest) -> bytes | Rejected:
        """The body of the request to the agent's model, as JSON in its provider's words."""

    def window_tokens(self, config: LLMConfig) -> int | None:
        """The size of a model's window in tokens, where its server has said so."""

    async def llm(self, handle: str) -> LLMConfig | Rejected:
        """The config of a language model, as its provider offers it."""

    async def embedding(self, handle: str) -> EmbeddingConfig | Rejected:
        """The config of an embedding model."""

    async def refusal(self, config: LLMConfig) -> Rejected | None:
        """Why nobody could answer for a model config, if so."""


# Longer names of models are none.
NAME_CHARS_MAX = 200


def is_usable(name: object) -> bool:
    """Whether a model's name can be kept."""
    return isinstance(name, str) and 0 < len(name) <= NAME_CHARS_MAX and name.isprintable()
