"""The language of the agent service: single questions to a model outside of any run, by clients and
by MCP servers."""

from __future__ import annotations

from typing import Literal

from libs.contracts.bus_messages import Command, Json, JsonObject, Value, delta_subject

SERVICE = "agent"


class GenerateCompletion(Command, service=SERVICE, topic="completion.generate"):
    """Ask the model of an agent, or another one, a single question.

    It is accepted when the model is about to be asked; with `response_schema` the answer is JSON of
    that form."""

    completion_id: str
    agent_id: str
    prompt: str
    system_prompt: str | None = None
    model: str | None = None
    response_schema: JsonObject | None = None

    @property
    def target(self) -> str:
        """Each question is one of its own: none waits for those to the same agent."""
        return self.completion_id


class AskModel(Command, service=SERVICE, topic="completion.ask"):
    """Ask a model of the organisation a single question, without any agent.

    It is accepted when the model is about to be asked; with `response_schema` the answer is JSON of
    that form."""

    completion_id: str
    model: str
    prompt: str
    system_prompt: str | None = None
    response_schema: JsonObject | None = None

    @property
    def target(self) -> str:
        """Each question is one of its own."""
        return self.completion_id


def completion_deltas(org: str, completion_id: str) -> str:
    """The subject of what an asker is told: `{}` while the model is asked; then a `completion`
    (content, model, usage; for an MCP server its `stop_reason`; else what was `said` besides an
    answer that has a form), or the `problem` why there is none, which is `lost` where the server
    has given up."""
    return delta_subject(SERVICE, "completion", "progress", org, completion_id)


class SampledMessage(Value):
    """A message that a model is shown: text, or V1 content parts of text and images."""

    role: Literal["user", "assistant"]
    content: Json


class SampleModel(Command, service=SERVICE, topic="completion.sample"):
    """Ask the model of an agent what an MCP server wants to know while the agent calls its tool.

    It is accepted when the model is about to be asked. Nothing of the agent goes in but how its
    model is set up; the answer ends before a stop sequence."""

    completion_id: str
    agent_id: str
    messages: list[SampledMessage]
    system_prompt: str | None = None
    max_tokens: int
    temperature: float | None = None
    stop_sequences: list[str]

    @property
    def target(self) -> str:
        """Each question is one of its own: none waits for those to the same agent."""
        return self.completion_id


def sampling_deltas(org: str, completion_id: str) -> str:
    """The subject of what the asker is told: the tools service hears no other."""
    return delta_subject(SERVICE, "sampling", "progress", org, completion_id)
