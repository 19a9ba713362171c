"""Check a file that came with the texts beside it, in a process that has no such files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from libs.agent_toml.checked_file import read
from libs.agent_toml.problems import Problem
from libs.agent_toml.security_rules import DEFAULT_RULES
from libs.agent_toml.tables import Environment


def problems_in(
    toml: str, file: str, files: Mapping[str, str], environment: Environment | None
) -> tuple[Problem, ...]:
    """The problems of a file, by the rules of an environment. `files` are the texts beside it, by
    their paths."""

    def read_sibling(name: str) -> str:
        if name not in files:
            raise FileNotFoundError(2, "it was not sent along: put its text into `files`")
        return files[name]

    rules = replace(DEFAULT_RULES, environment=environment)
    return read(toml, file=file, read_sibling=read_sibling, rules=rules).problems
