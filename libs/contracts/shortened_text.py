"""Texts within a limit, which say where something is left out."""

from __future__ import annotations


def cut(text: str, chars_max: int) -> str:
    """A text within a limit; where it is longer, its end says how much is left out."""
    if len(text) <= chars_max:
        return text
    left_out = len(text) - chars_max
    return f"{text[:chars_max]}... [{left_out} of {len(text)} characters left out]"
