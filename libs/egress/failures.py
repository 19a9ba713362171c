"""Why there is no answer from an address that a client named."""

from __future__ import annotations


class EgressFailed(Exception):
    """There is no answer; the words say why, for whoever asked."""


class Forbidden(EgressFailed):
    """An address that may not be asked; so it would be again."""


class Unreachable(EgressFailed):
    """Nobody answers there, or nothing that is HTTP."""


class TooLate(EgressFailed):
    """The answer did not come in its time."""


class AnswerTooLarge(EgressFailed):
    """The answer has more bytes than are read."""
