"""The exception for files that nothing here can read."""

from __future__ import annotations


class Unreadable(Exception):
    """A file that cannot be read; the words are for a person."""
