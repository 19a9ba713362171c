"""What an MCP server asks the model of an agent while the agent calls its tool: the language of the
agent service, which the tools service speaks. Nothing is recorded of the answer; the asker is told
it by deltas, in the words of `completion_deltas`."""

from __future__ import annotations

from typing import ClassVar, Literal

from libs.contracts.bus_messages import Command, Json, Value, delta_subject

SERVICE = "agent"


class SampledMessage(Value):
    """A message that a model is shown: text, or V1 content parts of text and images."""

    role: Literal["user", "assistant"]
    content: Json


class SampleModel(Command):
    """Ask the model of an agent what an MCP server wants to know while the agent calls its tool.

    It is accepted when the model is about to be asked. Nothing of the agent goes in but how its
    model is set up; the answer ends before a stop sequence."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "completion.sample"
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
