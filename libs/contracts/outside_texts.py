"""Texts from outside: their first bytes may be a byte order mark, as editors and shells of Windows
write it, and they have characters at which other readers end a line."""

from __future__ import annotations

from codecs import BOM_UTF16_BE, BOM_UTF16_LE


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
