"""Texts of memory blocks in the arguments of tools."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

_NUMBERED = re.compile(r"^\d+→ ", re.MULTILINE)


def without_line_numbers(text: str | None) -> str | None:
    """The text; raises ValueError if it has the numbers that a prompt shows before lines."""
    if text and _NUMBERED.search(text):
        raise ValueError("leave out the line numbers ('1→ '): they only show positions")
    return text


Text = Annotated[str, AfterValidator(without_line_numbers)]
OptionalText = Annotated[str | None, AfterValidator(without_line_numbers)]
