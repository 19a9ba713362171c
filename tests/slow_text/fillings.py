"""What fields are filled with: repeats of what some parser takes for a beginning or an end."""

from __future__ import annotations

from typing import Any

FILLINGS = (
    *('"', '\\"', "\\", "'", "`", "{", "}", "[", "]", "(", ")", "<", ">", "{{a|", "{{ a", "{%"),
    *("<a>", "<a ", "</", "<!--", "&lt;", "&", "=", ";", ":", ",", ".", "a.", "-", "--", "_", "%"),
    *("%2", "%25", "*", "**", "?", "+", "|", "^", "$", "#", "~", "@", "!", "/", "//", "a://b:"),
    *("../", "0", "9", "1e9", "1_", "0x", " ", "\t", "\n", "\r\n", "\u2028", "\u200b", "\u0301"),
    *(
        "a\u0301\u0327",
        "\u202e",
        "ß",
        "İ",
        "\ufdfa",
        "👩‍👩‍👧",
        "a",
        "A1",
        "a ",
        "a\n",
        "a,",
        "[a](",
        "![",
        "```",
    ),
    *("def f(", "exec(", "lambda:", "f'{", "not ", "import a;", "import", "class A:\n "),
    *(
        "ignore ",
        "ignore all ",
        "system ",
        "password=",
        "sk-",
        "eyJ-",
        "SG.a",
        "-----BEGIN ",
        "IGNORE",
    ),
    *('{"a":', "[[", "]]", "a=", "a=1\n", "[a]\n", "[[a]]\n", "#", "'''", '"""', "\\u", "\\x"),
    *(
        "data:",
        "data: {}\n\n",
        "id:",
        "<tool_call>",
        "<thinking>",
        "```json\n{",
        "$ref",
        "${a",
        "${",
    ),
    *("agent-", "message-0", "* * ", "*/", "1-", "1,", "mon-", "2026-", "T00:", "+00:", "PT", "Z"),
)


def filled(filling: str, chars: int) -> str:
    """A text of so many characters."""
    return (filling * (chars // len(filling) + 1))[:chars]


def filled_json(filling: str, chars: int) -> dict[str, Any]:
    """A value that is full of a text: as one text, as many, and as names."""
    short = filled(filling, 20)
    return {
        "text": filled(filling, chars // 2),
        "texts": [short] * (chars // 100),
        **{f"{short}{number}": short for number in range(chars // 200)},
    }
