"""Content of a tool's source, without running it."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass
from functools import lru_cache

from libs.agent_toml.source_dangers import Danger, dangers_in, may_be_dangerous

SOURCES_KEPT_MAX = 128  # more than one file has


class UnusableSource(Exception):
    """Source that is no tool; the text says why."""


def module_of(source: str) -> ast.Module:
    """The parsed source. Raises UnusableSource."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes in the source of somebody else
            return ast.parse(source)
    except SyntaxError as error:
        raise UnusableSource(f"{error.msg} (line {error.lineno})") from None
    except (RecursionError, MemoryError):
        raise UnusableSource("it is nested too deeply") from None
    except ValueError as error:
        raise UnusableSource(str(error)) from None


@dataclass(frozen=True, slots=True)
class LookedAtSource:
    """The content of a source: the name of its tool, or the problem that it is none, and its
    dangers."""

    name: str
    problem: str
    dangers: tuple[Danger, ...] = ()


@lru_cache(maxsize=SOURCES_KEPT_MAX)
def look_at(source: str) -> LookedAtSource:
    """A source's content, parsed once however many checks and tools ask for it."""
    try:
        module = module_of(source)
    except UnusableSource as problem:
        return LookedAtSource("", str(problem))
    dangers = dangers_in(module) if may_be_dangerous(source) else ()
    functions = [
        node for node in module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    if not functions:
        return LookedAtSource("", "it has no function: define one at the top level", dangers)
    return LookedAtSource(functions[-1].name, "", dangers)


def name_in(source: str) -> str:
    """The name of the tool: that of the last function. Raises UnusableSource."""
    found = look_at(source)
    if found.problem:
        raise UnusableSource(found.problem)
    return found.name


def forget_sources() -> None:
    """Forget the sources that were looked at, so that the next look takes as long as the first."""
    look_at.cache_clear()
