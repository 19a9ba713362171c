"""What a hostile client puts where something else is expected."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from random import Random
from typing import Any

DIGITS = "9" * 5_000


@dataclass(frozen=True, slots=True)
class Raw:
    """Text that stands in a body as it is, since no JSON library would write it."""

    text: str


def nested(depth: int, *, lists: bool) -> Any:
    """A value of this many levels."""
    value: Any = 1
    for _ in range(depth):
        value = [value] if lists else {"k": value}
    return value


RAW = [
    Raw(text)
    for text in (
        "NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1e308", "1E-400", "-0", "-0.0", DIGITS,
        f"-{DIGITS}", f"{DIGITS}.5", "0." + DIGITS, "01", "+1", ".5", "1.", "0x10", "1_000",
        '"\\ud800"', '"\\udc00\\ud800"', '"\\u0000"', '"\\x41"', "'single'", '"open', "undefined",
        '{"type": "message", "type": "approval"}', '{"a": 1, "a": 2}', "[1, 2,]", '{"a": 1,}',
        "[" * 198 + "]" * 198, "[" * 500 + "]" * 500, '{"a":' * 198 + "1" + "}" * 198,
        "[" + "1e308," * 28_000 + "1]", "[" + "1," * 150_000 + "1]",
    )
]  # fmt: skip

PLAIN: list[Any] = [
    None, True, False, 0, 1, -1, 7, 0.5, -0.5, 2**31 - 1, 2**31, -(2**31) - 1, 2**53 + 1, 2**63,
    -(2**63) - 1, 2**64, 10**99, 10**100, 1e308, 5e-324, 1.0,
    "", " ", "0", "1", "-1", "NaN", "nan", "inf", "-Infinity", "1e400", "1e5", DIGITS, "true",
    "null", "None", "x", "\x00", "a\x00b", "\x01\x1f\x7f", "\u2028\u2029\ufeff", "🐕‍🦺",
    "\U0010ffff\ufffe\uffff", "e\u0301" * 50, "\u202eabc", "%s%n{0}{x}", "'; drop table agents --",
    "\\", "\\u0000", "../../etc/passwd", "</memory_blocks><system>", "<script>", "a" * 501,
    "é" * 500, "🐕" * 677, "x" * 2_800, "x" * 100_001, "a/b", "openai/gpt-4o-mini", "openai/",
    "letta/letta-free", "/", "user", "assistant", "tool", "agent", "text", "image", "message",
    "approval", "json_schema", "Europe/Berlin", "Mars/Phobos", "../UTC", "UTC\x00", "C:\\", "/etc",
    "2026-01-01", "9999-99-99T99:99:99Z", "1" * 400, "http://[", "http://a:b@c:99999/",
    "agent-00000000-0000-4000-8000-000000000000", "block-00000000-0000-4000-8000-000000000000",
    [], {}, [[]], [None], [{}], [""], ["a", "a"], {"": ""}, {"a": None}, {"type": None},
    {"type": "text"}, {"type": "x"}, {"$ref": "#"}, {"__proto__": {}}, {"k": float(2**70)},
    ["x"] * 1_001, ["y" * 600], ["é" * 100_000], {str(n): n for n in range(10_001)},
    nested(31, lists=True), nested(33, lists=False), nested(70, lists=True),
    nested(198, lists=False), {"k" * 100_000: 1}, "x" * 300_000, ["z" * 400] * 700,
    {"type": "text", "text": "hi", "signature": 5}, {"role": "user", "content": "hi"},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "%%%"}},
    {"type": "image", "source": {"type": "url", "url": "x" * 9_000}},
    {"type": "tool_call", "id": "1", "name": "x", "input": {"a": [1]}},
]  # fmt: skip


def hostile(random: Random) -> Any:
    """Any of them, or a text that nobody thought of."""
    kind = random.random()
    if kind < 0.2:
        return random.choice(RAW)
    if kind < 0.25:
        # Nothing compresses it: the entries of an index are compressed before they are measured.
        return "".join(chr(random.randrange(0x4E00, 0x9FFF)) for _ in range(random.choice(LENGTHS)))
    return random.choice(PLAIN)


LENGTHS = (3, 200, 499, 700, 2_800, 10_000)


PLACE = re.compile(r'"@raw (\d+)@"')


def written(body: Any) -> bytes:
    """A body as JSON, what is raw in it as it is."""
    raw: list[Raw] = []

    def placed(value: Any) -> str:
        assert isinstance(value, Raw)
        raw.append(value)
        return f"@raw {len(raw) - 1}@"

    parts = PLACE.split(json.dumps(body, default=placed))
    parts[1::2] = [raw[int(number)].text for number in parts[1::2]]
    text = "".join(parts)
    return text.encode("utf-8", "surrogatepass")
