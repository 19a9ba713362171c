"""A model for the first conversation: rules, no network, no key. It says what it is, and it really
calls the memory tools, so what one tells it is there after a restart."""

from __future__ import annotations

import json
import re
from hashlib import sha256

from libs.contracts.agent.conversations import Message, ToolCall
from libs.contracts.agent.stored_to_letta_messages import text_of
from libs.contracts.prompt_escaping import unescape_tags
from services.agent.adapters.models.rule_provider import RuleProvider, shown_chars, usage_of
from services.agent.domain.prompts.model_context import ModelRequest
from services.agent.domain.runs.step_results import ModelReply

HANDLE = "demo/offline"

WHAT_I_AM = (
    "I am Heeler's offline demo model: a handful of rules, no language model. I keep facts that "
    "you tell me in my memory block and find them again when you ask. For real conversations set "
    "OPENAI_API_KEY (or OPENAI_API_BASE) or ANTHROPIC_API_KEY, and give the agent a model such as "
    "openai/gpt-4o-mini or anthropic/claude-haiku-4-5."
)
FACT = re.compile(
    r"\b(remember|my name is|call me|i am|i'm|i like|i love|i prefer|i live|i work|i have|"
    r"i hate|i was born|my \w+ (?:is|are|lives?|works?))\b",
    re.IGNORECASE,
)
QUESTION = re.compile(
    r"\?\s*$|^\s*(who|what|where|when|which|why|how|do|does|did|is|are|can|could|tell me)\b",
    re.IGNORECASE,
)
IDENTITY = re.compile(r"\b(who|what) are you\b|\bare you (a|an|real|human)\b", re.IGNORECASE)
LEAD_IN = re.compile(r"^\s*(please\s+)?remember\s*(that\b|:|,)?\s*", re.IGNORECASE)
BLOCK, VALUE, VALUE_END = re.compile(r"<([\w.\- /]+)>\n<description>"), "<value>\n", "\n</value>"
# What the rules compare each character with, about.
PATTERNS = 20
WORDS = re.compile(r"[a-z0-9]+")
COMMON = frozenset(
    [
        *("a", "about", "am", "an", "and", "are", "at", "can", "could", "did", "do", "does", "for"),
        *("have", "how", "i", "in", "is", "it", "know", "like", "me", "my", "of", "on", "please"),
        *("remember", "tell", "that", "the", "to", "was", "what", "when", "where", "which", "who"),
        *("why", "you", "your"),
    ]
)
HIDDEN_BLOCKS = frozenset({"persona"})


class DemoProvider(RuleProvider):
    """The provider `demo` with its one model, `offline`."""

    def __init__(self) -> None:
        super().__init__(
            HANDLE,
            answer,
            lambda request: PATTERNS * shown_chars(request),
            context_window=32_000,
            output_tokens_max=4_096,
        )


def answer(request: ModelRequest) -> ModelReply:
    """What the rules say to the newest message."""
    newest = request.messages[-1]
    blocks = known_blocks(request.messages[0])
    tools = {str(tool["name"]) for tool in request.tools}
    asked = text_of(next(m for m in reversed(request.messages) if m.role != "tool"))
    if newest.role == "tool":
        good = newest.tool_status != "error"
        text = "I will remember that." if good else f"I could not keep that: {text_of(newest)}"
        return text_reply(request, text)
    if IDENTITY.search(asked):
        return text_reply(request, WHAT_I_AM)
    if QUESTION.search(asked):
        return text_reply(request, recall(asked, blocks))
    writable = next((label for label in ("human", *blocks) if label in blocks), None)
    if FACT.search(asked) and writable and "memory_insert" in tools:
        return memory_reply(request, writable, LEAD_IN.sub("", asked).strip() or asked)
    return text_reply(request, f"{WHAT_I_AM} Tell me something about you, then ask me about it.")


def known_blocks(system: Message) -> dict[str, str]:
    """The memory blocks that the system message shows, by label. Each character is read once."""
    text, blocks, at = text_of(system), dict[str, str](), 0
    while found := BLOCK.search(text, at):
        begin = text.find(VALUE, found.end()) + len(VALUE)
        at = text.find(VALUE_END, begin) if begin >= len(VALUE) else -1
        if at < 0:
            break
        blocks[found[1]] = unescape_tags(text[begin:at])
    return blocks


def recall(question: str, blocks: dict[str, str]) -> str:
    """The remembered lines that have words with the question in common."""
    wanted = words(question)
    lines = [
        line
        for label, value in blocks.items()
        if label not in HIDDEN_BLOCKS
        for line in value.split("\n")
        if line.strip()
    ]
    shared = [(len(wanted & words(line)), line) for line in lines]
    ranked = sorted(shared, key=lambda found: -found[0])
    if found := [line for count, line in ranked[:3] if count]:
        return "You told me: " + "; ".join(found)
    if lines:
        return "All I remember is: " + "; ".join(lines[:5])
    return "I do not remember anything about that yet. Tell me, and I will."


def words(text: str) -> set[str]:
    """The words that matter, without a plural's s."""
    return {word.rstrip("s") for word in WORDS.findall(text.lower()) if word not in COMMON}


def text_reply(request: ModelRequest, text: str) -> ModelReply:
    """A reply of these words alone."""
    return ModelReply(text, [], "stop", usage_of(request, text))


def memory_reply(request: ModelRequest, label: str, fact: str) -> ModelReply:
    """A reply that calls `memory_insert` to keep a fact."""
    arguments = json.dumps({"label": label, "new_string": fact})
    seed = f"{request.messages[-1].id}{len(request.messages)}"
    call_id = f"call_{sha256(seed.encode()).hexdigest()[:24]}"
    call = ToolCall(id=call_id, name="memory_insert", arguments=arguments)
    return ModelReply("", [call], "tool_calls", usage_of(request, arguments))
