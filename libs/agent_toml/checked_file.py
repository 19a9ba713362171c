"""Read a TOML file as an agent: its definition, and all that is wrong with it at once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from libs.agent_toml.cross_checks import check_definition
from libs.agent_toml.definition import AgentDefinition
from libs.agent_toml.form_checks import checked_form
from libs.agent_toml.problems import Problem
from libs.agent_toml.reporting import Reporter
from libs.agent_toml.security_checks import check_security
from libs.agent_toml.security_rules import DEFAULT_RULES, RuleSet
from libs.agent_toml.server_checks import Catalogue, check_against
from libs.agent_toml.sibling_files import ReadSibling, with_siblings
from libs.agent_toml.toml_positions import (
    DEPTH_MAX,
    DIGITS_MAX,
    VALUES_MAX,
    NotToml,
    Path,
    Place,
    Positions,
    TooMuch,
    line_starts,
    positions_of,
    with_literal_strings,
)
from libs.contracts.letta.request_size_limits import walk
from libs.contracts.outside_texts import decode_text

FILE_CHARS_MAX = 4 << 20
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """The content of a file. `definition` is None where any problem is an error; the problems are
    in the order of the file. `positions` are those of its keys, for further checks."""

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
        """The allowed parts that may be mistakes."""
        return tuple(problem for problem in self.problems if problem.severity == "warning")


def read(
    text: str,
    *,
    file: str = "agent.toml",
    read_sibling: ReadSibling | None = None,
    rules: RuleSet | None = DEFAULT_RULES,
    catalogue: Catalogue | None = None,
) -> CheckedFile:
    """The content of a file, and its problems: of its form, of security by the `rules`, and, with a
    `catalogue`, what the server does not have. `read_sibling` gives the texts of files beside
    it."""
    found = document_in(text, file)
    if isinstance(found, Problem):
        return CheckedFile(None, (found,), file)
    data, positions = found
    return _check_data(data, Reporter(file, positions), read_sibling, rules, catalogue)


def document_in(text: str, file: str) -> tuple[dict[str, Any], Positions] | Problem:
    """The TOML of a text, and the positions of its keys; or the problem that it is none."""
    if len(text) > FILE_CHARS_MAX:
        words = f"it has {len(text)} characters, and may have {FILE_CHARS_MAX}"
        return _problem(file, "AGT002", words)
    text = text.replace("\r\n", "\n")
    positions, begin = Positions(line_starts(text)), 0
    try:
        positions = positions_of(text)
    except NotToml as error:
        begin = error.offset
    except TooMuch as error:
        return _problem(file, "AGT002", str(error), positions.place(error.offset))
    try:
        document = tomllib.loads(with_literal_strings(text, positions))
    except tomllib.TOMLDecodeError as error:
        return syntax_problem(error, file, positions.place(begin))
    except ValueError:
        words = f"a whole number has more than {DIGITS_MAX} digits"
        return _problem(file, "AGT001", words, positions.place(begin))
    return document, positions


def check(
    document: dict[str, Any], *, file: str = "", rules: RuleSet | None = DEFAULT_RULES
) -> CheckedFile:
    """The content of a JSON document in the form of a file; its problems have no place."""
    found = _check_data(document, Reporter(file, Positions([0])), None, rules, None)
    nowhere = {"line": 0, "column": 0}
    placeless = (problem.model_copy(update=nowhere) for problem in found.problems)
    return replace(found, problems=tuple(placeless))


def _problem(file: str, code: str, message: str, place: Place | None = None) -> Problem:
    """A problem of a file as a whole."""
    place = place or Place(0, 0)
    return Problem(file=file, line=place.line, column=place.column, code=code, message=message)


def _check_data(
    data: dict[str, Any],
    reporter: Reporter,
    read_sibling: ReadSibling | None,
    rules: RuleSet | None,
    catalogue: Catalogue | None,
) -> CheckedFile:
    """The content of a document, if it has the right size."""
    if not _fits(data, reporter):
        return CheckedFile(None, reporter.in_order(), reporter.file, reporter.positions)
    definition = checked_form(data, reporter, AgentDefinition)
    if definition is not None:
        definition = with_siblings(definition, reporter, read_sibling)
        check_definition(definition, reporter)
        if rules is not None:
            check_security(definition, reporter, rules)
        if catalogue is not None:
            check_against(definition, reporter, catalogue)
    problems = reporter.in_order()
    is_usable = definition is not None and not any(p.severity == "error" for p in problems)
    return CheckedFile(
        definition if is_usable else None, problems, reporter.file, reporter.positions
    )


def read_file(
    read_bytes: Callable[[], bytes],
    *,
    file: str,
    read_sibling: ReadSibling,
    rules: RuleSet | None = DEFAULT_RULES,
    catalogue: Catalogue | None = None,
) -> CheckedFile:
    """The content of the bytes from `read_text`; a file that cannot be read is a problem."""
    try:
        text = decode_text(read_bytes())
    except UnicodeDecodeError as error:
        words = f"byte {error.start} is no {'UTF-16' if '16' in error.encoding else 'UTF-8'}"
        return _unreadable(_problem(file, "AGT003", words))
    except OSError as error:
        words = error.strerror or "it cannot be read"
        return _unreadable(_problem(file, "AGT004", words))
    return read(text, file=file, read_sibling=read_sibling, rules=rules, catalogue=catalogue)


def _unreadable(problem: Problem) -> CheckedFile:
    return CheckedFile(None, (problem,), problem.file)


def syntax_problem(error: ValueError, file: str, begin: Place) -> Problem:
    """Where the text is no TOML, in words; what comes behind it was not read. Where something does
    not end, that is the place at which it begins."""
    words = str(error)
    found = _PLACE.search(words)
    place = Place(int(found[1]), int(found[2])) if found and found[1] else begin
    message = f"{_PLACE.sub('', words)}; what comes after this place was not looked at"
    return _problem(file, "AGT001", message, place)


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


__all__ = ["CheckedFile", "Path", "check", "document_in", "read", "read_file", "syntax_problem"]
