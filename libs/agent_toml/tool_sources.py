"""What the source of a tool says, without running it."""

from __future__ import annotations

import ast
import warnings
from functools import lru_cache

SOURCES_KEPT_MAX = 32


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


def name_in(source: str) -> str:
    """The name of the tool: that of the last function. Raises UnusableSource."""
    name, problem = _name_or_problem(source)
    if problem:
        raise UnusableSource(problem)
    return name


@lru_cache(maxsize=SOURCES_KEPT_MAX)
def _name_or_problem(source: str) -> tuple[str, str]:
    """The name of the tool, or why the source is none: several checks of a file ask for it."""
    try:
        body = module_of(source).body
    except UnusableSource as problem:
        return "", str(problem)
    functions = [node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    if not functions:
        return "", "it has no function: define one at the top level"
    return functions[-1].name, ""


def forget_sources() -> None:
    """Forget the sources that were looked at, so that the next look takes as long as the first."""
    _name_or_problem.cache_clear()
