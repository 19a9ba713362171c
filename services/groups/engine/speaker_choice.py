"""Have a model pick the member of a group that fits a message best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from libs.bus.ports import Bus, Clock
from libs.contracts.agent.one_off_completions import GenerateCompletion, completion_deltas
from libs.contracts.bus_messages import Context, JsonObject, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.groups.group_runs import PickedBy
from libs.work.acceptance import ask_until_accepted
from libs.work.agent_runs import text_of
from libs.work.progress import follow
from services.groups.domain.conversations.member_messages import line_of
from services.groups.domain.conversations.run_steps import RunView
from services.groups.domain.managers.decisions import Participant
from services.groups.domain.managers.member_names import without_thoughts

# How often a model is asked that named nobody, and how long it may have no room for the question.
TRIES_MAX = 3
BUSY_SECONDS_MAX = 5.0
RETRY_SECONDS = 1.0
PROMPT_CHARS_MAX = 20_000


@dataclass(frozen=True, slots=True)
class Choice:
    """The member that was picked, and by whom."""

    agent_id: str
    by: PickedBy


class SpeakerChoice:
    """Asks the model of the manager, or of the first member."""

    def __init__(self, bus: Bus, clock: Clock) -> None:
        self.bus = bus
        self.clock = clock

    async def choose(self, view: RunView, context: Context) -> Choice:
        """The member that the model names; the first of the group where it names none."""
        members = view.facts.present
        for attempt in range(TRIES_MAX):
            if attempt:
                await self.clock.sleep(RETRY_SECONDS)
            named = await self.ask(view, members, attempt, context)
            member = view.facts.member_named_in(named) if named else None
            if member is not None:
                return Choice(member.agent_id, "model")
        return Choice(members[0].agent_id, "rotation")

    async def ask(
        self, view: RunView, members: list[Participant], attempt: int, context: Context
    ) -> str | None:
        """The name that the model answers, if it does."""
        # Each attempt at the run of the group hears its own answer.
        completion_id = derived_id("completion", view.run.id, str(attempt), context.message_id)
        manager = view.facts.manager
        command = GenerateCompletion(
            completion_id=completion_id,
            agent_id=manager.agent_id if manager else members[0].agent_id,
            prompt=prompt_of(view, members),
            response_schema=schema_of(members),
        )
        async with follow(self.bus, completion_deltas(context.org, completion_id)) as progress:
            cause = context.follow_up(completion_id)
            reply = await ask_until_accepted(
                self.bus, self.clock, command, cause, seconds_max=BUSY_SECONDS_MAX
            )
            if isinstance(reply, Rejected):
                return None
            end = await progress.end_or_silence()
        return name_in(end.get("completion")) if end else None


def prompt_of(view: RunView, members: list[Participant]) -> str:
    """The question to the model."""
    lines = [f"- {line_of(member)}" for member in members]
    said = "\n".join(text_of(message.content) for message in view.run.messages)
    return (
        "Which of these participants fits this message best? Answer with its name.\n"
        + "\n".join(lines)
        + f"\n\nThe message:\n{said[:PROMPT_CHARS_MAX]}"
    )


def schema_of(members: list[Participant]) -> JsonObject:
    """The form of the answer: the name of a member."""
    names: JsonObject = {"type": "string", "enum": [member.name for member in members]}
    return {"type": "object", "properties": {"name": names}, "required": ["name"]}


def name_in(completion: Any) -> str | None:
    """The name in an answer, which is JSON or, of a model that knows no forms, a text."""
    content = without_thoughts(str((completion or {}).get("content") or ""))
    try:
        answer = from_json(content)
    except ValueError:
        return content or None
    # Some name the field otherwise: the text as a whole names one member, or nobody.
    return str(answer.get("name") or content) if isinstance(answer, dict) else content
