"""Texts from outside: their first bytes may be a byte order mark, as editors and shells of Windows
write it, they have characters at which other readers end a line, and they may declare which
encoding they are in."""

from __future__ import annotations

import codecs
from codecs import BOM_UTF16_BE, BOM_UTF16_LE

# What a text may declare that it is in, by the names that Python has for it; and what those mean
# that are named for a part of it.
DECLARED = frozenset(
    (
        *(f"cp{number}" for number in (437, 850, 852, 855, 866, 874, 932, 949, *range(1250, 1259))),
        *(f"iso8859-{number}" for number in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)),
        *("koi8-r", "koi8-u", "mac-roman", "mac-cyrillic"),
        *("euc_jp", "gb18030", "big5hkscs"),
    )
)
MEANT = {
    **{"ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874"},
    **{"tis-620": "cp874", "shift_jis": "cp932", "euc_kr": "cp949", "big5": "big5hkscs"},
    **{"gb2312": "gb18030", "gbk": "gb18030", "x-gbk": "gb18030", "x-sjis": "cp932"},
    **{"windows-31j": "cp932", "windows-874": "cp874", "iso-8859-8-i": "iso8859-8"},
    **{"x-mac-cyrillic": "mac-cyrillic"},
}


def decode_text(content: bytes) -> str:
    """The text without its mark: UTF-16 where the mark is one of UTF-16, else UTF-8. Raises
    UnicodeDecodeError."""
    is_utf16 = content.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
    return content.decode("utf-16" if is_utf16 else "utf-8-sig")


def lines_of(text: str) -> list[str]:
    """The lines without their ends: only LF and CRLF end one. `str.splitlines` also breaks at
    characters that stand inside lines, such as U+2028 and form feeds."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def declared_encoding(name: str) -> str | None:
    """The encoding that a text means by a name, as browsers read it; None for what no page is in.
    Some that Python knows are none for texts, or take long for a long one."""
    try:
        found = codecs.lookup(MEANT.get(name.lower(), name)).name
    except LookupError:
        return None
    found = MEANT.get(found, found)
    return found if found in DECLARED else None
