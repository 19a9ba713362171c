"""What the source of a tool says, without running it."""

from __future__ import annotations

import ast
import warnings


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
    functions = [
        node
        for node in module_of(source).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    if not functions:
        raise UnusableSource("it has no function: define one at the top level")
    return functions[-1].name
