"""Parts of a conversation that models are no longer shown, because they did not answer them.

A message that a provider refuses stays in the history that clients read. If models were shown it
again, they would refuse every run that follows. So each refusal in a row leaves out more:

1. what came since a model answered last: the messages of the run, or the results of its tools;
2. the attachments of all older messages, and, if the whole is too long, the older half of them;
3. everything older.

The first makes up for a bad message. The others are for content that was accepted once: by another
model, or while an address of an image was still good. If even the third does not help, no message
is to blame, but the agent's settings perhaps: then everything is shown again as before. The retry
of a run that failed, which nobody made, counts as no refusal, and is shown everything.

Nothing is left out for good: after an answer models are shown a part of it again (`Trial`). If that
is refused, the same run goes on without, and the next trial of that part waits for twice as many
answers.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from libs.contracts.agent.conversations import Message
from libs.contracts.agent.runs import RunFailed
from libs.contracts.bus_messages import Json, JsonObject

TOO_LONG = "context_window_exceeded"
# How runs fail whose content may be to blame; what is left comes from elsewhere, and passes.
REFUSED = frozenset({"llm_bad_request", "llm_unprocessable_entity", TOO_LONG, "internal_error"})
REASON_CHARS_MAX = 300

# After how many answers, at most, what is left out is tried again.
TRIAL_ANSWERS_MAX = 64
OLDER, ALL = "older", "all"  # no ids of messages
OLDER_IN_PART = 2
ALL_OLDER = 3


class Omissions(BaseModel):
    """The parts left out of a window: messages, by id and with the reason; the attachments of all
    before one place; and all messages before another, but never the system message."""

    messages: dict[str, str] = {}
    attachments_before: int = 0
    all_before: int = 0
    reason: str = ""

    def __bool__(self) -> bool:
        """Whether anything is left out."""
        return bool(self.messages or self.attachments_before or self.all_before)


class PartTrials(BaseModel):
    """The number of trials of a part that were refused, and of answers since the last."""

    failed: int = 0
    answers: int = 0


class Trial(BaseModel):
    """The trial of omitted parts, one at a time: `parts` are the omitted ones, messages by their
    ids and `OLDER`. While one is tried, it is the `part`, and `omitted` are the others; `ALL` is
    tried by the retry of a run, and counts for none."""

    omitted: Omissions | None = None
    part: str = ""
    parts: dict[str, PartTrials] = {}

    @property
    def is_running(self) -> bool:
        """Whether something is shown again just now."""
        return bool(self.omitted)

    def of_parts_in(self, omitted: Omissions) -> Trial:
        """The same of what is still left out."""
        kept = {part: self.parts[part] for part in parts_of(omitted) if part in self.parts}
        return Trial(omitted=self.omitted or None, part=self.part, parts=kept)


class Refusals(BaseModel):
    """The number of refusals in a row, and the omissions before them."""

    count: int = 0
    before: Omissions


def refused_again(refusals: Refusals | None, omitted: Omissions) -> Refusals:
    """One more refusal in a row, or the first."""
    if refusals is None:
        return Refusals(count=1, before=omitted)
    return Refusals(count=refusals.count + 1, before=refusals.before)


def parts_of(omitted: Omissions) -> list[str]:
    """The parts of what is left out, in the order in which they are tried again."""
    older = [OLDER] if omitted.attachments_before or omitted.all_before else []
    return [*older, *omitted.messages]


def without_part(omitted: Omissions, part: str) -> Omissions:
    """The omissions without one part."""
    if part == OLDER:
        return Omissions(messages=omitted.messages)
    kept = {name: reason for name, reason in omitted.messages.items() if name != part}
    return omitted.model_copy(update={"messages": kept})


def after_answer(omitted: Omissions, trial: Trial) -> tuple[Omissions, Trial]:
    """The omissions after an answer, which ends a trial well; then the next part is tried, once it
    has waited for enough answers."""
    parts = {}
    for part in parts_of(omitted):
        known = trial.parts.get(part, PartTrials())
        parts[part] = PartTrials(failed=known.failed, answers=known.answers + 1)
    for part, trials in parts.items():
        if trials.answers >= min(2**trials.failed, TRIAL_ANSWERS_MAX):
            return without_part(omitted, part), Trial(omitted=omitted, part=part, parts=parts)
    return omitted, Trial(parts=parts)


def all_tried_again(omitted: Omissions, trial: Trial) -> tuple[Omissions, Trial]:
    """Show everything again, if something is left out."""
    before = trial.omitted or omitted
    if not before:
        return omitted, trial
    return Omissions(), Trial(omitted=before, part=ALL, parts=trial.parts)


def after_failed_trial(trial: Trial) -> tuple[Omissions, Trial]:
    """The omissions after a part on trial was refused again."""
    parts = dict(trial.parts)
    if trial.part != ALL:
        failed = parts.get(trial.part, PartTrials()).failed + 1
        parts[trial.part] = PartTrials(failed=failed)
    return trial.omitted or Omissions(), Trial(parts=parts)


def left_out_parts(window: Sequence[Message], omitted: Omissions) -> list[JsonObject]:
    """The parts of a window that models are not shown, in words for clients: a message, all
    attachments before a message, or all messages before one, each with its reason."""
    parts: list[JsonObject] = [
        {"what": "message", "message_id": name, "reason": reason}
        for name, reason in omitted.messages.items()
    ]
    for what, place in (
        ("attachments_before", omitted.attachments_before),
        ("messages_before", omitted.all_before),
    ):
        if place:
            behind = window[place].id if place < len(window) else None
            parts.append({"what": what, "message_id": behind, "reason": omitted.reason})
    return parts


def omitted_after(
    refusals: Refusals, omitted: Omissions, window: Sequence[Message], failed: RunFailed
) -> Omissions:
    """The omissions after so many refusals, the last of which failed this run."""
    if refusals.count > ALL_OLDER:
        return refusals.before
    reason = failed.message[:REASON_CHARS_MAX]
    asked = unanswered_messages(window)
    if failed.error_type == TOO_LONG and 2 * length(asked) < length(window):
        step = max(refusals.count, OLDER_IN_PART)
    else:
        step = refusals.count
        omitted = with_messages(omitted, asked, reason)
    update: dict[str, object] = {}
    if step >= OLDER_IN_PART:
        update = {"attachments_before": len(window), "reason": reason}
    if step >= ALL_OLDER:
        update["all_before"] = len(window)
    elif step == OLDER_IN_PART and failed.error_type == TOO_LONG:
        update["all_before"] = middle(window, omitted.all_before)
    return omitted.model_copy(update=update)


def with_messages(omitted: Omissions, messages: Sequence[Message], reason: str) -> Omissions:
    """The same without these messages too; what a reason was known for keeps it."""
    fresh = {message.id: reason for message in messages}
    return omitted.model_copy(update={"messages": {**fresh, **omitted.messages}})


def unanswered_messages(window: Sequence[Message]) -> list[Message]:
    """The messages of users and tools since the model spoke last."""
    spoke = [
        place for place, message in enumerate(window) if message.role in ("system", "assistant")
    ]
    return list(window[max(spoke, default=0) + 1 :])


def length(messages: Sequence[Message]) -> int:
    """The length of messages, roughly."""
    return sum(len(message.model_dump_json()) for message in messages)


def middle(window: Sequence[Message], since: int) -> int:
    """The place in a window behind the older half of what is shown of it."""
    half, passed = length(window[since:]) / 2, 0
    for place, message in enumerate(window[since:], start=since):
        passed += length([message])
        if passed > half:
            return place + 1
    return len(window)


def shown_window(window: Sequence[Message], omitted: Omissions) -> list[Message]:
    """The window as models may see it, with words in the place of what is left out."""
    if not omitted:
        return list(window)
    start = max(omitted.all_before, 1)
    older = list(window[1:start])
    kept = [
        shown_message(message, omitted, with_attachments=place >= omitted.attachments_before)
        for place, message in enumerate(window[start:], start=start)
    ]
    return [*window[:1], *(left_out(message, omitted.reason) for message in older[:1]), *kept]


def shown_message(message: Message, omitted: Omissions, *, with_attachments: bool) -> Message:
    """One message as models may see it."""
    reason = omitted.messages.get(message.id)
    if reason is not None:
        what = "The result of this call" if message.role == "tool" else "A message of the user"
        return message.model_copy(update={"content": note(what, reason)})
    if with_attachments or not isinstance(message.content, list):
        return message
    parts: list[Json] = [
        part
        if isinstance(part, dict) and part.get("type") == "text"
        else {"type": "text", "text": note("An attachment", omitted.reason)}
        for part in message.content
    ]
    return message.model_copy(update={"content": parts})


def left_out(first: Message, reason: str) -> Message:
    """The message that stands for all messages from this one on that are not shown."""
    content = note("The older messages", reason)
    return Message(id=first.id, role="user", content=content, created_at=first.created_at)


def note(what: str, reason: str) -> str:
    """The note to the model in the place of an omitted part."""
    return f"[{what}: left out here, since there was no answer to it. The reason: {reason}]"
