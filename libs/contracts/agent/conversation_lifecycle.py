"""The language of the agent service: conversations beside an agent's own, as they come, change, are
forked and go. What is said in them is in `conversation`."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from libs.contracts.agent.conversations import SERVICE, ConversationEvent, RunCommand
from libs.contracts.bus_messages import Command, JsonObject
from libs.contracts.letta.conversations import ConversationConfig


class ConversationCommand(Command):
    """A command about one conversation beside an agent's own."""

    service: ClassVar[str] = SERVICE
    conversation_id: str

    @property
    def target(self) -> str:
        return self.conversation_id


class CreateConversation(ConversationCommand):
    """Make a conversation of an agent, with its own copies of some blocks, as a V1 request
    describes it."""

    topic: ClassVar[str] = "conversation.create"
    agent_id: str
    request: JsonObject


class ForkConversation(ConversationCommand):
    """Make a conversation that goes on from what another one of the agent has in its context: all
    of it, or up to a message."""

    topic: ClassVar[str] = "conversation.fork"
    agent_id: str
    source_id: str
    message_id: str | None = None
    hidden: bool = False


class UpdateConversation(ConversationCommand):
    """Change the fields that a V1 request sets."""

    topic: ClassVar[str] = "conversation.update"
    request: JsonObject


class DeleteConversation(ConversationCommand):
    """Remove a conversation with its messages, its runs and its own blocks."""

    topic: ClassVar[str] = "conversation.delete"


class RecompileConversation(RunCommand):
    """Make the system message anew of what it shows now."""

    topic: ClassVar[str] = "conversation.recompile"


class PreviewSystemPrompt(RunCommand):
    """Say what the system message would be if it was made anew now."""

    topic: ClassVar[str] = "conversation.preview_system_prompt"
    keeps_reply: ClassVar[bool] = False


class ConversationCreated(ConversationEvent):
    """A conversation exists beside the agent's own."""

    topic: ClassVar[str] = "conversation.created"
    config: ConversationConfig


class ConversationUpdated(ConversationEvent):
    """Fields of a conversation have new values: those that `changed` names."""

    topic: ClassVar[str] = "conversation.updated"
    changed: list[str] = Field(default_factory=list)
    config: ConversationConfig
