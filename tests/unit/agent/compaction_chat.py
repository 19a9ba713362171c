"""An agent with a small window, and its summaries."""

from __future__ import annotations

from typing import Any

from libs.contracts.agent.compaction import CompactConversation, ConversationCompacted
from libs.contracts.agent.conversations import Message, Usage
from libs.contracts.agent.stored_to_letta_messages import text_of
from libs.contracts.bus_messages import Accepted, Rejected
from services.agent.adapters.models.ports import ModelFailed
from services.agent.domain.prompts.model_context import ModelRequest
from services.agent.domain.runs.step_results import Failure, ModelReply
from tests.contract.examples import AGENT, LLM, RUN_CONFIG
from tests.unit.agent.world import CONVERSATION, Process, World

WINDOW = 2_000  # tokens; a token is about four bytes


USAGE = Usage()


SUMMARY = ModelReply("They talked about cats.", [], "stop", USAGE)


BROKEN = ModelFailed(Failure("llm_error", "the summariser is broken"))


MODES = ["sliding_window", "all", "self_compact_all", "self_compact_sliding_window"]


def words(text: str = "Hello") -> ModelReply:
    return ModelReply(text, [], "stop", USAGE)


def settings(mode: str = "sliding_window", **fields: Any) -> dict[str, Any]:
    return {"mode": mode, "model": LLM.handle, "prompt": f"Summarise, {mode}.", **fields}


class Chat:
    """An agent with a small window, and one process that answers for it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.process: Process = world.process("p-1")
        self.count = 0

    async def begin(
        self, *, window: int = WINDOW, mode: str = "sliding_window", **own: Any
    ) -> None:
        await self.world.start_memory()
        llm = LLM.model_copy(update={"context_window": window, "parallel_tool_calls": True})
        await self.world.agent(
            llm_config=llm, compaction_settings=settings(mode, **own), tools=["conversation_search"]
        )

    def answers(self, *turns: Any) -> None:
        self.process.model.turns += turns

    async def say(self, text: str, *turns: Any, **fields: Any) -> str:
        """Send a message that the model answers with these turns; returns the run's id."""
        self.count += 1
        self.answers(*turns)
        run_id = f"run-{self.count}"
        assert isinstance(await self.process.say(run_id, text, **fields), Accepted)
        await self.process.idle()
        return run_id

    async def talk(self, exchanges: int, chars: int) -> None:
        """So many messages with so long answers."""
        for number in range(exchanges):
            await self.say(
                f"question {number} " + "q" * chars, words(f"answer {number} " + "a" * chars)
            )

    async def compact(self, *turns: Any, **asked: Any) -> Accepted | Rejected:
        self.count += 1
        self.answers(*turns)
        run = RUN_CONFIG.model_copy(update={"id": f"run-{self.count}"})
        command = CompactConversation(
            agent_id=AGENT, run=run, request_hash=f"h-{self.count}", settings=asked
        )
        reply = await self.process.tell(command, f"compact-{self.count}")
        await self.process.idle()
        return reply

    @property
    def window(self) -> list[Message]:
        talk = self.process.repository.find_cached(type_of(), CONVERSATION, org="org-1")
        assert talk is not None
        return talk.state.window

    @property
    def asked(self) -> list[ModelRequest]:
        return self.process.model.asked

    @property
    def compactions(self) -> list[ConversationCompacted]:
        return [event for event in self.world.events() if isinstance(event, ConversationCompacted)]

    def run(self) -> Any:
        return self.world.row("runs", f"run-{self.count}")

    def readable(self) -> list[str]:
        """What a client reads of the history."""
        rows = sorted(self.world.schema.rows("messages"), key=lambda row: row["position"])
        return [row["text"] for row in rows if row["role"] in ("user", "assistant")]

    def in_context(self) -> list[str]:
        rows = self.world.schema.rows("messages")
        return sorted(row["id"] for row in rows if row["in_context"])

    def check(self) -> None:
        """Rows say of each message whether models are shown it, and the counts are right."""
        assert self.in_context() == sorted(message.id for message in self.window)
        talk = self.process.repository.find_cached(type_of(), CONVERSATION, org="org-1")
        fresh = type(talk.state.length)()
        for message in self.window:
            fresh.add(message)
        assert fresh.bytes == talk.state.length.bytes


def type_of() -> Any:
    from services.agent.domain.conversations.conversation import Conversation

    return Conversation


def summarises(request: ModelRequest) -> bool:
    """Whether a summary is asked for, which its prompt does, in front or at the end."""
    ends = (request.messages[0], request.messages[-1])
    return any("Summarise, " in text_of(message) for message in ends)
