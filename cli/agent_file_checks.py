"""Check the files of agents on this machine, and show what is wrong."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from cli.exit_codes import CommandError, ExitCode
from cli.fleet.files import files_of, fleet_of, read_checked
from cli.output import say, show_lines
from libs.agent_toml import (
    DEFAULT_RULES,
    Catalogue,
    CheckedFile,
    Problem,
    RuleSet,
    WrongRules,
    rules_from,
    to_json,
    to_text,
)
from libs.agent_toml.reporting import Reporter
from libs.agent_toml.tables import ENVIRONMENTS
from libs.contracts.outside_texts import decode_text


def rule_set(file: Path | None, environment: str | None) -> RuleSet:
    """The security rules that hold. Raises CommandError for a file of rules that is wrong, or an
    environment that there is not."""
    if environment is not None and environment not in ENVIRONMENTS:
        words = f"'{environment}' is no environment: use {', '.join(ENVIRONMENTS)}"
        raise CommandError(words, ExitCode.USAGE)
    rules = DEFAULT_RULES
    if file is not None:
        try:
            rules = rules_from(decode_text(file.read_bytes()))
        except (WrongRules, OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{file}: {error}", ExitCode.USAGE) from None
    return rules if environment is None else replace(rules, environment=cast(Any, environment))


def check_files(
    paths: Sequence[Path], rules: RuleSet, catalogue: Catalogue | None = None
) -> tuple[list[Problem], int]:
    """The problems of all files, and how many files there are. Raises CommandError for a path
    that is not there, and where there is no file at all."""
    files = files_of(fleet_of(paths))
    if not files:
        raise CommandError("There is no TOML file in there", ExitCode.NOT_FOUND)
    checked = [check_file(file, rules, catalogue) for file in files]
    problems = [problem for each in checked for problem in each.problems]
    return [*problems, *_names_of_two(checked)], len(files)


def check_file(
    path: Path, rules: RuleSet = DEFAULT_RULES, catalogue: Catalogue | None = None
) -> CheckedFile:
    """The content of one file, with its problems."""
    return read_checked(path, _name_of(path), rules, catalogue)


def _name_of(path: Path) -> str:
    """The path as people read it: from the working folder, if it is below that."""
    here = Path(os.path.realpath("."))
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _names_of_two(files: Sequence[CheckedFile]) -> list[Problem]:
    """A problem for each file whose agent an earlier one describes, too."""
    first: dict[str, str] = {}
    problems: list[Problem] = []
    for checked in files:
        if checked.definition is None:
            continue
        name = checked.definition.name
        if name in first:
            reporter = Reporter(checked.file, checked.positions)
            reporter.error(("name",), "AGT215", f"{first[name]} describes the agent '{name}', too")
            problems += reporter.found
        first.setdefault(name, checked.file)
    return problems


def show_problems(problems: Sequence[Problem], files: int) -> None:
    """Print the problems, and on stderr how many there are."""
    show_lines(map(to_text, problems), [to_json(problem) for problem in problems])
    errors = sum(problem.severity == "error" for problem in problems)
    say(
        f"{_count(files, 'file')}: {_count(errors, 'error')},"
        f" {_count(len(problems) - errors, 'warning')}"
    )


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
