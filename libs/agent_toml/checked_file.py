"""Read a TOML file as an agent: its definition, and all that is wrong with it at once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from libs.agent_toml.cross_checks import check_definition
from libs.agent_toml.definition import AgentDefinition
from libs.agent_toml.form_checks import checked_form
from libs.agent_toml.problems import Problem
from libs.agent_toml.reporting import Reporter
from libs.agent_toml.sibling_files import ReadSibling, with_siblings
from libs.agent_toml.toml_positions import Path, Positions, positions_of
from libs.contracts.letta.request_size_limits import walk

FILE_CHARS_MAX = 4 << 20
VALUES_MAX = 100_000
DEPTH_MAX = 32
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """What a file says. `definition` is None where any problem is an error; the problems are in the
    order of the file. `positions` are those of its keys, for further checks."""

    definition: AgentDefinition | None
    problems: tuple[Problem, ...]
    file: str = "agent.toml"
    positions: Positions = field(default_factory=lambda: Positions([0]))

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that keep the file from being used."""
        return tuple(problem for problem in self.problems if problem.severity == "error")

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """What is allowed and may be a mistake."""
        return tuple(problem for problem in self.problems if problem.severity == "warning")


def read(
    text: str, *, file: str = "agent.toml", read_sibling: ReadSibling | None = None
) -> CheckedFile:
    """What a file says, and its problems. `read_sibling` gives the texts of files beside it."""
    if len(text) > FILE_CHARS_MAX:
        words = f"it has {len(text)} characters, and may have {FILE_CHARS_MAX}"
        return _unreadable(Problem(file=file, line=1, column=1, code="AGT002", message=words))
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return _unreadable(syntax_problem(error, text, file))
    except RecursionError:
        words = f"its tables and lists have more than {DEPTH_MAX} levels"
        return _unreadable(Problem(file=file, line=1, column=1, code="AGT002", message=words))
    positions = positions_of(text.replace("\r\n", "\n"))
    reporter = Reporter(file, positions)
    if not _fits(data, reporter):
        return CheckedFile(None, reporter.in_order(), file, positions)
    return _read_data(data, reporter, read_sibling)


def _read_data(
    data: dict[str, Any], reporter: Reporter, read_sibling: ReadSibling | None
) -> CheckedFile:
    """The reading of a document whose text and size are all right."""
    definition = checked_form(data, reporter, AgentDefinition)
    if definition is not None:
        definition = with_siblings(definition, reporter, read_sibling)
        check_definition(definition, reporter)
    problems = reporter.in_order()
    is_usable = definition is not None and not any(p.severity == "error" for p in problems)
    return CheckedFile(
        definition if is_usable else None, problems, reporter.file, reporter.positions
    )


def read_file(
    read_text: Callable[[], bytes], *, file: str, read_sibling: ReadSibling
) -> CheckedFile:
    """What the file says whose bytes `read_text` gives; a file that cannot be read is a problem."""
    try:
        text = read_text().decode("utf-8")
    except UnicodeDecodeError as error:
        words = f"byte {error.start} is no UTF-8"
        return _unreadable(Problem(file=file, line=0, column=0, code="AGT003", message=words))
    except OSError as error:
        words = error.strerror or "it cannot be read"
        return _unreadable(Problem(file=file, line=0, column=0, code="AGT004", message=words))
    return read(text, file=file, read_sibling=read_sibling)


def _unreadable(problem: Problem) -> CheckedFile:
    return CheckedFile(None, (problem,), problem.file)


def syntax_problem(error: tomllib.TOMLDecodeError, text: str, file: str) -> Problem:
    """Where the text is no TOML, in words; what comes behind it was not read."""
    words = str(error)
    found = _PLACE.search(words)
    line, column = len(text.splitlines()) or 1, 1
    if found and found[1]:
        line, column = int(found[1]), int(found[2])
    message = f"{_PLACE.sub('', words)}; what comes after this place was not looked at"
    return Problem(
        file=file, line=line, column=column, code="AGT001", message=message, expected="valid TOML"
    )


def _fits(data: dict[str, Any], reporter: Reporter) -> bool:
    """Whether the document is neither too deep nor has too many values; reports it otherwise."""
    for count, (path, _) in enumerate(walk(data)):
        if len(path) > DEPTH_MAX:
            words = f"tables and lists have more than {DEPTH_MAX} levels"
            reporter.error(path[:1], "AGT002", words)
            return False
        if count > VALUES_MAX:
            reporter.error((), "AGT002", f"the file has more than {VALUES_MAX} values")
            return False
    return True


__all__ = ["CheckedFile", "Path", "read", "read_file", "syntax_problem"]
