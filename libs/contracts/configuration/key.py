"""A setting: a key of the configuration file, and the environment variable behind it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

type Value = str | int | float | bool | list[str]

FILE_ENDING = "_file"  # `password_file` names the file that holds the password


class Kind(StrEnum):
    """The type of a value in TOML."""

    TEXT = "text"
    WHOLE_NUMBER = "whole number"
    NUMBER = "number"
    YES_OR_NO = "true or false"
    LIST = "list of texts"
    PATH = "path"  # from the folder of the file on


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A setting.

    `default` and `example` are values as they stand in the file; the example differs from the
    default. `default_text` says in words what holds where there is no fixed default. `variable` is
    what is set; where one of the `aliases` is set in the environment, that counts as well.
    `words_for_empty` is what an empty list is in the variable; None where a list may not be empty.
    `words_for_yes_and_no` are the words for true and false. A `secret` is never shown, and may
    stand in a file of its own. What `needs_start` is read once, when the server starts. `services`
    are those that read it; none are all of them.
    """

    name: str
    variable: str
    text: str
    example: Value
    kind: Kind = Kind.TEXT
    default: Value | None = None
    default_text: str = "none"
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    secret: bool = False
    needs_start: bool = False
    services: tuple[str, ...] = ()
    words_for_empty: str | None = None
    words_for_yes_and_no: tuple[str, str] = ("true", "false")

    @property
    def path(self) -> tuple[str, ...]:
        """The tables of the file that lead to it, and its name in the last one."""
        return tuple(self.name.split("."))

    @property
    def file_name(self) -> str:
        """Of a secret: the key that names the file which holds it."""
        return self.name + FILE_ENDING

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that set it."""
        return (self.variable, *self.aliases)

    @property
    def default_words(self) -> str:
        """The default as people read it."""
        return self.default_text if self.default is None else self.text_of(self.default)

    def text_of(self, value: Value) -> str:
        """The value as the variable has it."""
        if isinstance(value, bool):
            return self.words_for_yes_and_no[0 if value else 1]
        if isinstance(value, list):
            return ",".join(value) if value else self.words_for_empty or ""
        return f"{value:g}" if isinstance(value, float) else str(value)
