"""Small changes of functions, each of which a test should notice: a flipped comparison, a removed
call, a number that is off by one."""

from __future__ import annotations

import ast
import inspect
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).parents[2]
# The rules and the engines, and what the libraries do without a server.
CHANGED = (
    "services/*/domain/**/*.py",
    "services/*/engine/**/*.py",
    "libs/work/*.py",
    "libs/bus/*.py",
    "libs/eventstore/*.py",
)
# These speak to a server or to the operating system, which no test in memory does.
LEFT_OUT = (
    *("nats_", "jetstream", "postgres", "connection_pool", "event_loop_connection", "migrations"),
    *("entrypoint", "service_runner", "service_settings", "fork_server", "limited_processes"),
    *("query_batching", "json_logs", "metrics_collection", "service_gauges", "message_telemetry"),
    *("failpoints", "clock_and_ids", "aggregate_load_query", "commit_statement", "sql_view_cache"),
    *("text_search", "row_claims", "configuration_file", "toml_lines", "backlog_counts"),
)
NOT_BEHAVIOUR = ("log", "logger", "warnings")  # removing a call of these changes no answer
OPPOSITES: dict[type[ast.AST], type[ast.AST]] = {
    **{ast.Eq: ast.NotEq, ast.Lt: ast.LtE, ast.Gt: ast.GtE, ast.Is: ast.IsNot, ast.In: ast.NotIn},
    **{ast.NotEq: ast.Eq, ast.LtE: ast.Lt, ast.GtE: ast.Gt, ast.IsNot: ast.Is, ast.NotIn: ast.In},
    **{ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add},
    **{ast.Break: ast.Continue, ast.Continue: ast.Break},
}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
REMOVABLE = (ast.AugAssign, ast.Delete, ast.Raise)
CONDITION = (ast.Name, ast.Attribute, ast.Call, ast.NamedExpr, ast.Await)

type CodeKey = tuple[str, int]  # the qualified name of a function and its first line
# A line, the change in words, and a function that makes it in the tree that was searched.
type Place = tuple[int, str, Callable[[], None]]


@dataclass(frozen=True, slots=True)
class Change:
    """The change of this number among all changes of the file."""

    file: str
    line: int
    number: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}"


def all_changes(under: str = "") -> list[Change]:
    """Every change of every file below a folder, in the order of their names and lines."""
    found = {path for pattern in CHANGED for path in ROOT.glob(pattern)}
    paths = sorted(path for path in found if not path.name.startswith(LEFT_OUT))
    files = [str(path.relative_to(ROOT)) for path in paths]
    return [change for file in files if file.startswith(under) for change in changes_of(file)]


def changes_of(file: str) -> list[Change]:
    places = enumerate(places_in(ast.parse((ROOT / file).read_text())))
    return [Change(file, line, number, what) for number, (line, what, _) in places]


def shuffled(changes: list[Change], seed: int) -> list[Change]:
    """All changes in the order of this seed, which is the same as long as the code is."""
    return random.Random(seed).sample(changes, len(changes))


def changed_functions(change: Change) -> dict[CodeKey, CodeType]:
    """The function that the change makes different; none if a name that it had from outside is
    gone, which no function can lose while the process runs."""
    tree = ast.parse((ROOT / change.file).read_text())
    before = functions_of(compile(tree, str(ROOT / change.file), "exec"))
    _, _, make = list(places_in(tree))[change.number]
    make()
    ast.fix_missing_locations(tree)
    after = functions_of(compile(tree, str(ROOT / change.file), "exec"))
    return {
        key: code
        for key, code in after.items()
        if code != before[key] and code.co_freevars == before[key].co_freevars
    }


def functions_of(code: CodeType) -> dict[CodeKey, CodeType]:
    """The functions and methods of a module; what stands inside a function is a part of it."""
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    found = {(part.co_qualname, part.co_firstlineno): part for part in inner}
    for key, part in list(found.items()):
        is_class = not part.co_flags & inspect.CO_OPTIMIZED
        if is_class or part.co_name.startswith("<generic parameters of "):
            found |= functions_of(part)
            del found[key]
        elif "<" in part.co_qualname:
            del found[key]
    return found


def places_in(tree: ast.Module) -> Iterator[Place]:
    """Each change that can be made in the functions of a module."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop(0)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for child in _inside(node):
                yield from _changes_at(child)
        elif isinstance(node, ast.Module | ast.ClassDef):
            todo += node.body


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all below it, without types, decorators, defaults, assertions and texts."""
    yield node
    for field, value in ast.iter_fields(node):
        if field not in ("annotation", "returns", "decorator_list"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not _is_left_out(child):
                    yield from _inside(child)


def _is_left_out(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr):
        called = node.value.func if isinstance(node.value, ast.Call) else node.value
        owner = called.value if isinstance(called, ast.Attribute) else called
        return isinstance(owner, ast.Constant) or (
            isinstance(owner, ast.Name) and owner.id in NOT_BEHAVIOUR
        )
    return isinstance(node, ast.Assert | ast.JoinedStr | ast.arguments)


def _changes_at(node: ast.AST) -> Iterator[Place]:
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in OPPOSITES:
            yield _replaced(node, "ops", [OPPOSITES[type(operator)]()])
        case ast.BoolOp(op=operator):
            yield _replaced(node, "op", OPPOSITES[type(operator)]())
        case ast.BinOp(op=ast.Add() | ast.Sub() as operator) if not _joins(node):
            yield _replaced(node, "op", OPPOSITES[type(operator)]())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield _replaced(node, "operand", ast.UnaryOp(ast.Not(), operand))
        case ast.Constant(value=bool(value)):
            yield _replaced(node, "value", not value)
        case ast.Constant(value=int(value)):
            yield _replaced(node, "value", value + 1)
        case ast.Name(id=name) if name in NAMES:
            yield _replaced(node, "id", NAMES[name])
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            if isinstance(test, CONDITION):
                yield _replaced(node, "test", ast.UnaryOp(ast.Not(), test))
    for field in ("body", "orelse", "finalbody"):
        statements = getattr(node, field, None)
        for place, statement in enumerate(statements if isinstance(statements, list) else []):
            yield from _changed_statement(statements, place, statement)


def _changed_statement(
    statements: list[ast.stmt], place: int, statement: ast.stmt
) -> Iterator[Place]:
    text = ast.unparse(statement).splitlines()[0]
    if isinstance(statement, ast.Break | ast.Continue):
        other = OPPOSITES[type(statement)]()
        yield statement.lineno, f"{text} changed", partial(statements.__setitem__, place, other)
    stores = isinstance(statement, ast.Assign) and not isinstance(statement.targets[0], ast.Name)
    does = isinstance(statement, ast.Expr) and not _is_left_out(statement)
    if stores or does or isinstance(statement, REMOVABLE):
        nothing = ast.copy_location(ast.Pass(), statement)
        yield statement.lineno, f"without `{text}`", partial(statements.__setitem__, place, nothing)


def _replaced(node: ast.expr | ast.stmt, field: str, value: object) -> Place:
    before = getattr(node, field)

    def change(new: object) -> None:
        setattr(node, field, new)

    change(value)
    text = ast.unparse(ast.fix_missing_locations(node)).splitlines()[0]
    change(before)
    return node.lineno, f"now `{text}`", partial(change, value)


def _joins(node: ast.BinOp) -> bool:
    """Whether `+` joins texts or lists: `-` in its place fails in any test."""
    texts = (ast.JoinedStr, ast.List, ast.Tuple, ast.Dict)
    sides = (node.left, node.right)
    return any(isinstance(s, texts) or isinstance(getattr(s, "value", 0), str) for s in sides)
