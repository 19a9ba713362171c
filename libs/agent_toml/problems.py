"""Problems of a file, with their places."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from libs.agent_toml.problem_catalogue import CATALOGUE

Severity = Literal["error", "warning"]
DOCS_PAGE = "docs/agent-errors.md"


class Problem(BaseModel):
    """A problem of a file: `line` and `column` count from 1, and are 0 where it has no place.

    `expected` says what would be right, and `suggestion` what somebody probably meant; both may be
    empty. `code` stands in the catalogue of problems (`AGT`) or is that of a security rule.
    """

    model_config = ConfigDict(frozen=True)

    file: str
    line: int = 0
    column: int = 0
    code: str
    message: str
    expected: str = ""
    suggestion: str = ""
    severity: Severity = "error"
    field: str = ""
    fix: str = ""

    @property
    def docs(self) -> str:
        """Where the catalogue explains the code."""
        return f"{DOCS_PAGE}#{self.code.lower()}"


def to_text(problem: Problem) -> str:
    """The problem as people read it: `ada.toml:3:1: error AGT102: ...`, and how to mend it."""
    place = f"{problem.file}:{problem.line}:{problem.column}" if problem.line else problem.file
    lines = [f"{place}: {problem.severity} {problem.code}: {problem.message}"]
    if problem.expected and not problem.suggestion:
        lines.append(f"    expected: {problem.expected}")
    if problem.suggestion:
        lines.append(f"    did you mean: {problem.suggestion}")
    fix = fix_of(problem)
    if fix and not problem.suggestion:
        lines.append(f"    fix: {fix}")
    return "\n".join(lines)


def fix_of(problem: Problem) -> str:
    """The fix of a problem, in a sentence."""
    entry = CATALOGUE.get(problem.code)
    return problem.fix or ("" if entry is None else entry.fix)


def to_json(problem: Problem) -> dict[str, object]:
    """The problem as programs read it."""
    return {**problem.model_dump(mode="json"), "fix": fix_of(problem), "docs": problem.docs}
