"""When a conversation is compacted, and where it is cut: which messages a summary stands for.

A cut never parts a tool call from its result, and never takes away a call that still waits for its
result. Where the newest messages are what the model has to answer, they stay if they fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final, Literal, get_args

from libs.contracts.agent.conversations import Message
from libs.contracts.agent.stored_to_letta_messages import text_of
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.agent_state import AgentConfig
from libs.contracts.letta.model_configs import CompactionMode, CompactionSettings
from libs.contracts.token_estimates import message_bytes
from services.agent.domain.agents.prompt_texts import compaction_prompt
from services.agent.domain.conversations.conversation_state import ConversationState

# A window is compacted when it is so full; and anyway when it has so many messages or bytes. OpenAI
# takes 2,048 messages: the others are for the images of results, which are messages of their own
# there, and for what comes after the last look.
FULL = 0.9
WINDOW_MESSAGES_MAX = 1_800
WINDOW_BYTES_MAX = 8 << 20
# How often in a row a window is compacted before the model is asked all the same.
COMPACTIONS_MAX = 3
# What a summary may take of a window, and what it may always take.
SUMMARY_SHARE = 0.2
SUMMARY_BYTES_MIN = 400
SHARE_MIN, SHARE_MAX, SHARE_STEP = 0.0, 0.9, 0.1

Trigger = Literal[
    "pre_step_context_check", "post_step_context_check", "context_window_exceeded", "manual"
]
# What a compaction is tried with one after the other, by the mode that is asked for. The last way
# needs no model, and cannot fail.
type Way = CompactionMode | Literal["mechanical"]
MECHANICAL: Final = "mechanical"
WAYS: dict[CompactionMode, tuple[Way, ...]] = {
    "sliding_window": ("sliding_window", "all", MECHANICAL),
    "all": ("all", MECHANICAL),
    "self_compact_all": ("self_compact_all", "self_compact_sliding_window", "all", MECHANICAL),
    "self_compact_sliding_window": ("self_compact_sliding_window", "all", MECHANICAL),
}


@dataclass(frozen=True, slots=True)
class PromptSize:
    """The weight of a request to a model: its system message, its tools, the rest."""

    system: int
    tools: int
    messages: int

    @property
    def whole(self) -> int:
        """The size of all parts together."""
        return self.system + self.tools + self.messages


@dataclass(frozen=True, slots=True)
class Budget:
    """The room of a context window in bytes: the whole window; the part taken whatever is cut away,
    by the system message and the tools; the present weight, and the wanted one."""

    window: int
    fixed: int
    whole: int
    goal: int
    bytes_per_token: float

    @property
    def kept_max(self) -> int:
        """The weight that the kept messages may have, a little even where there is no room."""
        return max(self.goal - self.fixed, self.goal // 10)

    @property
    def summary_max(self) -> int:
        """The weight that a summary may have."""
        free = max(self.window - self.fixed, self.window // 10)
        return max(SUMMARY_BYTES_MIN, int(free * SUMMARY_SHARE))

    def tokens(self, weight: int) -> int:
        """About how many tokens so many bytes are to the model."""
        return int(weight / self.bytes_per_token)


@dataclass(frozen=True, slots=True)
class Plan:
    """The messages to summarise: those behind the system message up to `kept_from`."""

    way: Way
    kept_from: int


def settings_of(config: AgentConfig, asked: JsonObject | None = None) -> CompactionSettings:
    """The compaction settings of a conversation: the agent's, changed by the request. With another
    mode comes its own prompt, unless one is asked for."""
    own = CompactionSettings.model_validate(config.compaction_settings or {})
    if not asked:
        return own
    merged = CompactionSettings.model_validate(
        {**own.model_dump(mode="json"), **(config.compaction_settings or {}), **asked}
    )
    if merged.mode != own.mode and "prompt" not in asked:
        merged = merged.model_copy(update={"prompt": compaction_prompt(merged.mode)})
    return merged


def prompt_of(settings: CompactionSettings, way: CompactionMode) -> str:
    """The prompt of the model that summarises: the one of the settings where this is their way,
    else the one for this way."""
    same = way == settings.mode and settings.prompt
    return settings.prompt or "" if same else compaction_prompt(way)


def budget_of(
    state: ConversationState, config: AgentConfig, asked: PromptSize, share: float = 0.0
) -> Budget:
    """The room in the window of an agent whose model is asked so much, where this share of it is to
    be free. Each compaction that was not enough makes the next keep half."""
    llm = config.llm_config
    rate = state.length.bytes_per_token(llm.handle or llm.model)
    window = int(llm.context_window * rate)
    kept = (1 - min(max(share, SHARE_MIN), SHARE_MAX)) / 2 ** (
        state.active_run.compactions if state.active_run else 0
    )
    return Budget(window, asked.system + asked.tools, asked.whole, int(window * kept), rate)


def overflowing(budget: Budget) -> Budget:
    """The same, now that the provider says that the whole does not fit: if we took it for less, all
    of it weighs more than we thought."""
    scale = budget.whole / budget.window
    if scale > 1:
        return budget
    rate = budget.bytes_per_token * scale
    return replace(budget, window=budget.whole, goal=int(budget.goal * scale), bytes_per_token=rate)


def is_full(state: ConversationState, budget: Budget) -> bool:
    """Whether a window should be compacted before a model is asked. What no compaction can take
    away does not count: there has to be something to gain."""
    if len(state.window) > WINDOW_MESSAGES_MAX or state.length.bytes > WINDOW_BYTES_MAX:
        return True
    room = max(FULL * budget.window - budget.fixed, (1 - FULL) * budget.window)
    return budget.whole - budget.fixed > room


def plan_of(
    state: ConversationState, way: Way, settings: CompactionSettings, budget: Budget
) -> Plan | None:
    """Where the window is cut in this way; None if nothing would be gained."""
    last = unfinished_from(state.window)
    slides = way in ("sliding_window", "self_compact_sliding_window", MECHANICAL)
    cut = sliding_cut(state.window, settings, budget, last) if slides else None
    if cut is None and (way == MECHANICAL or not slides):
        cut = min(last, question_from(state, budget))
    return None if cut is None or not worth_it(state.window, cut, budget) else Plan(way, cut)


def worth_it(window: Sequence[Message], cut: int, budget: Budget) -> bool:
    """Whether a cut makes a window shorter: a summary in the place of an older one alone does not,
    nor in the place of a message that is no longer than it."""
    evicted = window[1:cut]
    if all(message.summary is not None for message in evicted):
        return False
    return len(evicted) > 1 or sum(map(message_bytes, evicted)) > budget.summary_max


def unfinished_from(window: Sequence[Message]) -> int:
    """Up to where messages may be evicted: to the end, or to a call that waits for its result."""
    answered: set[str] = set()
    for place in range(len(window) - 1, 0, -1):
        message = window[place]
        if message.role == "tool":
            answered.add(message.tool_call_id or "")
        elif message.tool_calls:
            return len(window) if {call.id for call in message.tool_calls} <= answered else place
        else:
            return len(window)
    return len(window)


def question_from(state: ConversationState, budget: Budget) -> int:
    """From where on messages are what the model has to answer, if a run is active and they fit:
    what the user said last, or the calls of which it has the results now."""
    window = state.window
    if state.active_run is None or state.active_run.compaction is not None:
        return len(window)
    place = len(window)
    while place > 1 and window[place - 1].role in ("user", "tool"):
        if window[place - 1].summary is not None:
            break
        place -= 1
    if place > 1 and place < len(window) and window[place].role == "tool":
        place -= 1
    weight = sum(map(message_bytes, window[place:]))
    return place if weight <= budget.kept_max else len(window)


def sliding_cut(
    window: Sequence[Message], settings: CompactionSettings, budget: Budget, last: int
) -> int | None:
    """The place from which messages are kept such that they fit: each try evicts a tenth of them
    more. It is where the assistant speaks, but for its last word, or else where the user does."""
    kept = [*accumulate(map(message_bytes, reversed(window)))][::-1]
    spoken = [n for n in range(2, min(last + 1, len(window))) if window[n].role == "assistant"]
    asked = [n for n in range(2, min(last + 1, len(window))) if window[n].role == "user"]
    for places in ([n for n in spoken if n < len(window) - 1 or n == last], asked):
        share = min(max(settings.sliding_window_percentage, SHARE_MIN), SHARE_MAX)
        while share < 1.0:
            share += SHARE_STEP
            cut = max((n for n in places if n <= round(share * len(window))), default=None)
            fits = cut is not None and kept[cut] <= budget.kept_max
            if cut is not None and fits and worth_it(window, cut, budget):
                return cut
    return None


assert set(WAYS) == set(get_args(CompactionMode.__value__)), "each mode has its ways"


TOOL_RETURN_CHARS_MAX = 2_000
MESSAGE_SHARE = 4  # one message takes at most this part of a transcript
EXCERPT_CHARS_MAX = 400
CUT = " [...] "
NO_MODEL = "(No model could summarise these messages. Excerpts of them, the oldest first:)"
ACKNOWLEDGEMENT = "Understood. I will answer with the summary and nothing else."


def transcript(messages: Sequence[Message], bytes_max: int) -> str:
    """The messages as text, in at most so many bytes: an older summary in front and the newest
    messages stay, and from long ones the middle is cut out."""
    lines = [
        line_of(message, max(EXCERPT_CHARS_MAX, bytes_max // MESSAGE_SHARE)) for message in messages
    ]
    first = lines[:1] if messages and messages[0].summary is not None else []
    return "\n\n".join([*first, *fitting(lines[len(first) :], bytes_max - size(first))])


def fitting(lines: Sequence[str], bytes_max: int) -> list[str]:
    """The newest of these lines that fit, and a word about those that do not."""
    kept: list[str] = []
    left = bytes_max
    for line in reversed(lines):
        left -= size([line])
        if left < 0 and kept:
            break
        kept.insert(0, line)
    missing = len(lines) - len(kept)
    return [f"[{missing} older messages are left out here]", *kept] if missing else kept


def size(lines: Sequence[str]) -> int:
    """The bytes of lines, with the separators between them."""
    return sum(len(line.encode(errors="surrogatepass")) + 2 for line in lines)


def line_of(message: Message, chars_max: int) -> str:
    """One message as a line of text for the summariser."""
    if message.summary is not None:
        return f"Earlier summary: {cut_middle(message.summary.text, chars_max)}"
    words = [text_of(message)] if text_of(message).strip() else []
    if isinstance(message.content, list):
        others = [p for p in message.content if isinstance(p, dict) and p.get("type") != "text"]
        words += [f"[{part.get('type')}]" for part in others]
    words += [f"called {call.name}({call.arguments})" for call in message.tool_calls]
    name = message.role if message.role != "tool" else f"result of {message.name}"
    limit = min(chars_max, TOOL_RETURN_CHARS_MAX) if message.role == "tool" else chars_max
    return f"{name}: {cut_middle(' '.join(words), limit)}"


def cut_middle(text: str, chars_max: int) -> str:
    """The text; if it is too long, without its middle."""
    if len(text) <= chars_max:
        return text
    half = max(1, (chars_max - len(CUT)) // 2)
    return f"{text[:half]}{CUT}{text[-half:]}"


def mechanical_summary(messages: Sequence[Message], bytes_max: int) -> str:
    """A summary that needs no model: what an older summary said, and excerpts of what users and
    the assistant said, the newest rather than older ones."""
    older = messages[0].summary if messages else None
    first = [cut_middle(older.text, bytes_max // 3)] if older is not None else []
    said = [
        message
        for message in messages
        if message.summary is None and message.role in ("user", "assistant")
    ]
    excerpt = max(40, min(EXCERPT_CHARS_MAX, bytes_max // 6))
    lines = [line_of(message, excerpt) for message in said]
    return "\n".join([*first, NO_MODEL, *fitting(lines, bytes_max - size([*first, NO_MODEL]))])


def clip(summary: str, chars_max: int | None, bytes_max: int) -> str:
    """The summary within its limits of characters and of bytes."""
    text = summary.strip()
    if chars_max is not None:
        text = text[: max(1, chars_max)]
    if len(text.encode(errors="surrogatepass")) <= bytes_max:
        return text
    return text.encode(errors="surrogatepass")[:bytes_max].decode(errors="ignore")
