"""The lint of regular expressions that `make check` runs (`python -m tests.slow_patterns`).

Text from outside may be written so that `re` needs for ever: it tries all ways in which repeats can
share a text, and searches begin anew at each character. So a pattern is refused in which a repeat
without a bound

- is followed by another that takes the same characters, with nothing between that neither takes:
  `\\s*:?\\s*`; a repeated group follows itself, so `(a+)*` is refused as well;
- repeats alternatives that begin alike: `(\\w\\w|\\d\\d)*`;
- takes all that a search begins with, and something behind it may fail: `\\w+Error`, `<.*>`.

Bounds (`{0,40}`), characters that exclude each other (`<[^<>]*>`) and possessive repeats (`\\s*+`)
make such a pattern linear, or `re2` does. Patterns of pydantic's `pattern=` are of a linear engine,
and are let pass. `REVIEWED` names what is linear for a reason that this lint cannot see.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product, takewhile
from pathlib import Path
from re import _constants as sre
from re import _parser as sre_parser
from typing import Any

from tests.reviewed_patterns import REVIEWED

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("cli", "deploy", "libs", "services")
ANCHORED = ("match", "fullmatch")
SEARCHES = ("search", "sub", "subn", "findall", "finditer", "split")
PATHS_MAX = 20_000  # through the alternatives of one pattern
# What stands for all characters: each of Latin-1, and some of those that classes tell apart.
ALPHABET = [chr(code) for code in range(256)] + ["\u0663", "\u2028", "\u4e2d", "\ud800", "\udc00"]
EVERY = frozenset(range(len(ALPHABET)))
CATEGORIES = {
    sre.CATEGORY_DIGIT: r"\d", sre.CATEGORY_NOT_DIGIT: r"\D", sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_SPACE: r"\S", sre.CATEGORY_WORD: r"\w", sre.CATEGORY_NOT_WORD: r"\W",
}  # fmt: skip
REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)


@dataclass(frozen=True, slots=True)
class Part:
    """Something that a pattern takes, one after the other: which characters, whether it may be
    empty, has no bound, or gives nothing back. An assertion takes none."""

    chars: frozenset[int] = frozenset()
    empty: bool = True
    endless: bool = False
    possessive: bool = False
    assertion: str = ""
    begins: frozenset[int] | None = None  # a group: with which of its characters

    def shares(self, other: Part) -> bool:
        """Whether both take some character, or the other takes none."""
        return self.meets(other) or other.empty

    def meets(self, other: Part) -> bool:
        """Whether this takes some character that the other may begin with."""
        return bool(self.chars & (other.chars if other.begins is None else other.begins))


@lru_cache
def of_class(pattern: str, flags: int) -> frozenset[int]:
    """The characters that a class of one character takes."""
    one = re.compile(pattern, flags & (re.ASCII | re.IGNORECASE | re.DOTALL))
    return frozenset(n for n, char in enumerate(ALPHABET) if one.fullmatch(char))


def characters(op: Any, value: Any, flags: int) -> frozenset[int]:
    """The characters that a part of one character takes."""
    match op:
        case sre.LITERAL:
            if value > 255 and chr(value) not in ALPHABET:
                return frozenset([ALPHABET.index("\u4e2d")])
            return of_class(re.escape(chr(value)), flags)
        case sre.NOT_LITERAL:
            return EVERY - characters(sre.LITERAL, value, flags)
        case sre.ANY:
            return of_class(".", flags)
        case sre.RANGE:
            low, high = value
            inside = frozenset(n for n, char in enumerate(ALPHABET) if low <= ord(char) <= high)
            either = {char.swapcase() for n, char in enumerate(ALPHABET) if n in inside}
            folded = frozenset(n for n, char in enumerate(ALPHABET) if char in either)
            return inside | folded if flags & re.IGNORECASE else inside
        case sre.CATEGORY:
            return of_class(CATEGORIES[value], flags)
        case sre.IN:
            negated = value[0][0] is sre.NEGATE
            taken = frozenset[int]().union(*(characters(*item, flags) for item in value[negated:]))
            return EVERY - taken if negated else taken
    return EVERY


def paths(items: Any, flags: int) -> list[tuple[Part, ...]]:
    """Every way through a pattern, as its parts one after the other. Raises SlowPattern."""
    ways: list[tuple[Part, ...]] = [()]
    for op, value in items:
        following = [*steps(op, value, flags)]
        if len(ways) * len(following) > PATHS_MAX:
            raise SlowPattern("it has too many alternatives to be read: part it")
        ways = [(*way, *step) for way, step in product(ways, following)]
    return ways


def steps(op: Any, value: Any, flags: int) -> Iterator[tuple[Part, ...]]:
    """The ways through one item of a pattern."""
    match op:
        case sre.SUBPATTERN:
            yield from paths(value[3], (flags | value[1]) & ~value[2])
        case sre.ATOMIC_GROUP:
            for way in paths(value, flags):
                yield tuple(replace(part, possessive=True) for part in way)
        case sre.BRANCH:
            for branch in value[1]:
                yield from paths(branch, flags)
        case sre.AT:
            multiline = value is sre.AT_BEGINNING and flags & re.MULTILINE
            yield (Part(assertion="AT_LINE" if multiline else str(value)),)
        case sre.ASSERT | sre.ASSERT_NOT:
            behind = value[0] < 0  # what stands before is told apart by its characters alone
            inner = [part.chars for way in paths(value[1], flags) for part in way] if behind else []
            yield (
                Part(frozenset[int]().union(*inner), assertion=f"{op} {'' if behind else 'AHEAD'}"),
            )
        case _ if op in REPEATS:
            yield from repeat_steps(op, value, flags)
        case sre.GROUPREF:
            yield (Part(EVERY),)
        case _:
            yield (Part(characters(op, value, flags), empty=False),)


def repeat_steps(op: Any, value: Any, flags: int) -> Iterator[tuple[Part, ...]]:
    """The ways through a repeat: one part, or the group itself where it comes once at most."""
    least, most, items = value
    ways, endless = paths(items, flags), value[1] is sre.MAXREPEAT
    possessive = op is sre.POSSESSIVE_REPEAT
    if endless and not possessive:
        check_loop(ways)
    if most == 1:
        yield from ways if least else [*ways, ()]
        return
    taken = frozenset[int]().union(
        *(part.chars for way in ways for part in way if not part.assertion)
    )
    empty = least == 0 or any(all(part.empty for part in way) for way in ways)
    inner = any(part.endless for way in ways for part in way)
    begins = frozenset[int]().union(*map(first, ways))
    yield (Part(taken, empty, endless or inner, possessive, begins=begins),)


class SlowPattern(Exception):
    """A pattern that may need more than linear time; the words say why."""


def check_loop(ways: Sequence[tuple[Part, ...]]) -> None:
    """Refuse a repeated group that can be read in several ways. Raises SlowPattern."""
    for way, following in product(ways, ways):
        check_neighbours([*way, *following], may_fail=True)
    for number, way in enumerate(ways):
        for other in ways[number + 1 :]:
            alike = sum(
                1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(way, other, strict=False))
            )
            if first(way[alike:]) & first(other[alike:]):
                raise SlowPattern("alternatives of a repeated group begin alike")


def first(way: Sequence[Part]) -> frozenset[int]:
    """The characters that a way begins with."""
    found: frozenset[int] = frozenset()
    for part in way:
        if not part.assertion:
            found |= part.chars
            if not part.empty:
                break
    return found


def fails(way: Sequence[Part]) -> bool:
    """Whether the rest of a way may fail."""
    return any(part.assertion or not part.empty for part in way)


def check_neighbours(way: Sequence[Part], *, may_fail: bool) -> None:
    """Refuse two repeats without a bound that can share a text. Raises SlowPattern."""
    for number, part in enumerate(way):
        if not part.endless or part.possessive:
            continue
        for place, other in enumerate(way[number + 1 :], start=number + 1):
            if other.assertion:
                continue
            alike = other.endless and part.meets(other)
            if alike and (may_fail or fails(way[place + 1 :])):
                raise SlowPattern("two repeats without a bound take the same characters")
            if not part.shares(other):
                break


def check_begin(way: Sequence[Part]) -> None:
    """Refuse a search that reads the same characters from many beginnings. Raises SlowPattern."""
    for number, part in enumerate(way):
        before = way[:number]
        if part.endless and fails(way[number + 1 :]) and not is_single(before, part):
            raise SlowPattern("a search begins anew within what a repeat without a bound takes")


def is_single(before: Sequence[Part], endless: Part) -> bool:
    """Whether a way begins once at most within what a repeat takes."""
    for part in before:
        match part.assertion:
            case "AT_BEGINNING" | "AT_BEGINNING_STRING":
                return True
            case "AT_LINE" if ALPHABET.index("\n") not in endless.chars:
                return True
            case "AT_BOUNDARY" if endless.chars <= of_class(r"\w", 0):
                return True
            case "ASSERT_NOT " if endless.chars <= part.chars:
                return True
            case "ASSERT " if not endless.chars & part.chars:
                return True
            case "" if not endless.shares(part):
                return True
    return False


def problem_of(pattern: str | bytes, methods: set[str], flags: int = 0) -> str:
    """Why a pattern is slow when it is used so; empty if it is not."""
    parsed = sre_parser.parse(pattern, flags)
    try:
        for way in paths(parsed, parsed.state.flags):
            check_neighbours(way, may_fail="fullmatch" in methods)
            if methods - set(ANCHORED):
                check_begin(way)
    except SlowPattern as slow:
        return str(slow)
    return ""


@dataclass(frozen=True, slots=True)
class Use:
    """A pattern in the source: where it stands, under which name, and how it is used."""

    path: Path
    line: int
    name: str
    pattern: str | bytes | None  # None where it cannot be read
    flags: int
    methods: frozenset[str]

    @property
    def key(self) -> str:
        """What `REVIEWED` calls it."""
        return f"{self.path.as_posix()}::{self.name}"


class Sources:
    """The modules of the product, and the values of their constants."""

    def __init__(self) -> None:
        self.trees = {
            path.relative_to(ROOT): ast.parse(path.read_text())
            for top in PRODUCT
            for path in sorted((ROOT / top).rglob("*.py"))
            if "node_modules" not in path.parts
        }
        self.constants = {path: dict(constants(tree)) for path, tree in self.trees.items()}
        self.methods: dict[str, set[str]] = {}
        for tree in self.trees.values():
            for node in ast.walk(tree):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                    self.methods.setdefault(node.value.id, set()).add(node.attr)

    def uses(self) -> Iterator[Use]:
        """Every pattern of the product."""
        for path, tree in self.trees.items():
            for scope in tree.body:
                for node in ast.walk(scope):
                    if isinstance(node, ast.Call) and is_of_re(node):
                        yield self.use(path, scope, node)

    def use(self, path: Path, scope: ast.stmt, call: ast.Call) -> Use:
        """The pattern of one call of `re`."""
        assert isinstance(call.func, ast.Attribute)
        name, methods = name_of(scope), {call.func.attr}
        if call.func.attr == "compile":
            methods = self.methods.get(name, set()) & {*ANCHORED, *SEARCHES} or {
                "search",
                "fullmatch",
            }
        flags = sum(
            {int(getattr(re, node.attr)) for node in flag_names(call) if hasattr(re, node.attr)}
        )
        try:
            pattern = self.value(path, call.args[0])
        except (KeyError, ValueError, IndexError):
            pattern = None
        return Use(path, call.lineno, name, pattern, flags, frozenset(methods))

    def value(self, path: Path, node: ast.expr) -> Any:
        """What a constant expression is. Raises KeyError and ValueError."""
        match node:
            case ast.Constant(value=value):
                return value
            case ast.JoinedStr(values=values):
                return "".join(str(self.value(path, part)) for part in values)
            case ast.FormattedValue(value=value):
                return self.value(path, value)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self.value(path, left) + self.value(path, right)
            case ast.Name(id=name):
                return self.constant(path, name)
            case ast.Attribute(value=value, attr="pattern"):
                return self.value(path, value)
            case ast.Call(func=ast.Attribute(value=value, attr="encode")):
                return self.value(path, value).encode()
            case ast.Call() if is_of_re(node) and node.args:
                return self.value(path, node.args[0])
        raise ValueError("no constant")

    def constant(self, path: Path, name: str) -> Any:
        """What a name of a module is, which it may have from another one."""
        known = self.constants[path][name]
        if isinstance(known, Path):
            return self.constant(known, name)
        return self.value(path, known)


def constants(tree: ast.Module) -> Iterator[tuple[str, ast.expr | Path]]:
    """The names that a module gives values, or has from other modules."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                pairs = zip(names, values, strict=False)
                yield from ((n.id, value) for n, value in pairs if isinstance(n, ast.Name))
            case ast.ImportFrom(module=str(module), names=names):
                file = Path(*module.split(".")).with_suffix(".py")
                yield from ((alias.name, file) for alias in names if (ROOT / file).is_file())


def is_of_re(call: ast.Call) -> bool:
    """Whether a call is one of `re` with a pattern."""
    match call.func:
        case ast.Attribute(value=ast.Name(id="re"), attr=name):
            return name in ("compile", *ANCHORED, *SEARCHES)
    return False


def flag_names(call: ast.Call) -> Iterator[ast.Attribute]:
    """The flags that a call names."""
    given = [*call.args[1:], *(keyword.value for keyword in call.keywords)]
    for argument in given:
        for node in ast.walk(argument):
            if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("re."):
                yield node


def name_of(scope: ast.stmt) -> str:
    """The name under which a pattern stands: of its constant, function or class."""
    match scope:
        case ast.Assign(targets=[ast.Name(id=name), *_]):
            return name
        case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=name), *_])]):
            return name
        case ast.AnnAssign(target=ast.Name(id=name)):
            return name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
    return "module"


def findings(sources: Sources) -> Iterator[str]:
    """What is to be mended, a line each."""
    unused = set(REVIEWED)
    for use in sources.uses():
        if use.pattern is None:
            problem = "a pattern that cannot be read here: write it as one text"
        else:
            problem = problem_of(use.pattern, set(use.methods), use.flags)
        if problem and use.key in REVIEWED:
            unused.discard(use.key)
        elif problem:
            yield f"{use.path.as_posix()}:{use.line}: `{use.name}`: {problem}"
    yield from (f"tests/reviewed_patterns.py: {key} needs no review any more" for key in unused)


def main() -> int:
    """Print what is to be mended; 1 if there is anything."""
    found = sorted(findings(Sources()))
    print("\n".join(found) or "No pattern needs more than linear time.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
