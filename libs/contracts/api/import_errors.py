"""Problems of a source of lines."""

from __future__ import annotations

from collections.abc import Sequence

from libs.contracts.api.imports import EntryError


class BadSource(Exception):
    """A source that cannot be read to its end, or says what cannot be."""

    def __init__(self, errors: Sequence[EntryError], *, conflict: bool = False) -> None:
        self.errors = list(errors)
        self.is_conflict = conflict
        super().__init__(self.errors)

    def __str__(self) -> str:
        return "; ".join(f"{error.entry}: {error.message}" for error in self.errors)

    @classmethod
    def at_line(cls, number: int, message: str) -> BadSource:
        """An error of one line."""
        return cls([EntryError(entry=f"line {number}", message=message)])

    @classmethod
    def of_file(cls, message: str) -> BadSource:
        """An error of the file as a whole."""
        return cls([EntryError(entry="file", message=message)])

    def about(self, entry: str) -> BadSource:
        """The same about an entry of the file that was read; without one, as it is."""
        if not entry:
            return self
        errors = [error.model_copy(update={"entry": entry}) for error in self.errors]
        return BadSource(errors, conflict=self.is_conflict)
