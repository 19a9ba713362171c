"""The language of single questions to a model: no conversation, no run, and nothing recorded of the
answer, which the asker is told by deltas."""

from __future__ import annotations

from typing import ClassVar

from libs.contracts.bus_messages import Command, JsonObject, delta_subject

SERVICE = "agent"


class GenerateCompletion(Command):
    """Ask the model of an agent, or another one, a single question.

    It is accepted when the model is about to be asked; with `response_schema` the answer is JSON of
    that form."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "completion.generate"
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


class AskModel(Command):
    """Ask a model of the organisation a single question, without any agent.

    It is accepted when the model is about to be asked; with `response_schema` the answer is JSON of
    that form."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "completion.ask"
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
