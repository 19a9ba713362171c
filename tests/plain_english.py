"""The lint of names and docstrings that `make check` runs (`python -m tests.plain_english`).

- No public function is named by a bare participle: a function is a verb (`refuse`), a question
  (`is_refused`) or a noun (`refusal`). Participles stay for what is read as an adjective: a
  property that is true or false, a decorator, a validator.
- No docstring of a public function has fewer than five words: it says what the caller gets.
- No loop variable and no parameter is called `one`, `it` or `x`: it says what it holds.
- No name has a word in it that the glossary replaces (`told`, `ring`).
- A docstring that begins with What, Who or How is a question. Few others are left:
  `riddle_docstrings`, of which a test counts that they do not come back.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("cli", "libs", "services", "deploy")
SUPPORT = ("tests", "benchmarks")  # only the variables of these are looked at
VAGUE_NAMES = {"one", "it", "x"}
# Metaphors and private words; docs/glossary.md says which word is used in their place.
PRIVATE_WORDS = {
    *("bell", "crowd", "doubtful", "excuse", "innocent", "patience", "retold", "ring", "rings"),
    *("solitude", "talk", "teller", "telling", "tellings", "told", "twin", "twins", "vitals"),
}
RIDDLE = re.compile(r"(What|Who|Whom|Whose|How|Whatever|Whoever)\b(?![^.]*\?)")
WORDS_MIN = 5

# Verbs and nouns that end like a participle.
NO_PARTICIPLES = re.compile("(re)?embed|exceed|feed|need|proceed|seed|speed|succeed")
PARTICIPLES = re.compile(
    r"""[a-z]+ed|
    began|begun|born|bought|broken|brought|built|came|caught|chosen|dealt|done|drawn|driven|
    fallen|fed|felt|flown|forbidden|forgotten|found|frozen|given|gone|grown|heard|held|hidden|
    kept|known|laid|led|left|lent|lost|made|meant|met|overtaken|paid|resent|retold|rewritten|
    said|seen|sent|shaken|shown|sold|sought|spent|spoken|stolen|struck|stuck|sunk|swept|taken|
    taught|thrown|told|torn|unbuilt|understood|undone|unheard|unknown|unsent|unwritten|withdrawn|
    withheld|woken|won|worn|written""",
    re.VERBOSE,
)
# The names of an interface that others define: `asyncio.Future`'s.
IMPOSED = {"cancelled"}
VALIDATOR = re.compile(r"(validator|serializer)$", re.IGNORECASE)
PROPERTIES = {"property", "cached_property", "computed_field"}

type Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Finding:
    """Something hard to read at a line of a file, and how to mend it."""

    path: Path
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path.as_posix()}:{self.line}: {self.text}"


def is_participle(name: str) -> bool:
    """Whether this name is one word, and a participle."""
    is_one = PARTICIPLES.fullmatch(name) and not NO_PARTICIPLES.fullmatch(name)
    return bool(is_one) and name not in IMPOSED


def last_name(expression: ast.expr) -> str:
    """`validator` of `pydantic.validator("field")`; empty where there is no name."""
    match expression:
        case ast.Call(func=function):
            return last_name(function)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def adjectives(tree: ast.Module) -> Iterator[str]:
    """The functions that this module uses as decorators and as pydantic's validators."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from map(last_name, node.decorator_list)
        elif isinstance(node, ast.Call) and VALIDATOR.search(last_name(node)):
            yield from map(last_name, node.args)


def public_functions(body: Iterable[ast.stmt]) -> Iterator[Function]:
    """The functions and methods that others call, without what is nested in a function."""
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from public_functions(statement.body)
        is_function = isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_function and not statement.name.startswith("_"):
            yield statement


def may_be_an_adjective(function: Function) -> bool:
    """Whether it is a validator, or a property that is true or false."""
    decorators = {last_name(decorator) for decorator in function.decorator_list}
    returns_bool = isinstance(function.returns, ast.Name) and function.returns.id == "bool"
    is_predicate = returns_bool and bool(decorators & PROPERTIES)
    return is_predicate or any(VALIDATOR.search(decorator) for decorator in decorators)


def function_findings(path: Path, tree: ast.Module, decorators: set[str]) -> Iterator[Finding]:
    """The public functions of a module whose name or docstring says too little."""
    for function in public_functions(tree.body):
        name = function.name
        if is_participle(name) and name not in decorators and not may_be_an_adjective(function):
            advice = "name it by a verb (refuse), a question (is_refused) or a noun (refusal)"
            text = f"`{name}` is a bare participle: {advice}"
            yield Finding(path, function.lineno, "participle", text)
        docstring = ast.get_docstring(function)
        if docstring is not None and len(docstring.split()) < WORDS_MIN:
            advice = "say what it returns or does, what it raises; or leave it out"
            text = f"`{name}`: a docstring of under {WORDS_MIN} words: {advice}"
            yield Finding(path, function.body[0].lineno, "docstring", text)


def variable_findings(path: Path, tree: ast.Module) -> Iterator[Finding]:
    """The loop variables and parameters of a module that do not say what they hold."""
    for node in ast.walk(tree):
        match node:
            case ast.For(target=target) | ast.AsyncFor(target=target):
                named = [(name.id, name.lineno) for name in names_in(target)]
            case ast.comprehension(target=target):
                named = [(name.id, name.lineno) for name in names_in(target)]
            case ast.arg(arg=parameter):
                named = [(parameter, node.lineno)]
            case _:
                continue
        for name, line in named:
            if name in VAGUE_NAMES:
                text = f"`{name}` does not say what it holds: name it (agent, row, permission)"
                yield Finding(path, line, "variable", text)


def name_findings(path: Path, tree: ast.Module) -> Iterator[Finding]:
    """The names of a module that are metaphors: of functions, classes, variables and fields."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                pass
            case ast.ClassDef(name=name) | ast.arg(arg=name):
                pass
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                pass
            case _:
                continue
        words = {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}
        if words & PRIVATE_WORDS:
            text = f"`{name}` is a metaphor: docs/glossary.md has the word that is used"
            yield Finding(path, node.lineno, "metaphor", text)


def riddle_docstrings(tree: ast.Module) -> tuple[list[ast.expr], int]:
    """The docstrings that begin with What, Who or How and ask nothing; and the number of all."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    found = [(node, text) for node in nodes if (text := ast.get_docstring(node)) is not None]
    riddles = [node.body[0] for node, text in found if RIDDLE.match(text)]
    return [line.value for line in riddles if isinstance(line, ast.Expr)], len(found)


def names_in(target: ast.expr) -> Iterator[ast.Name]:
    """The variables that a loop fills."""
    return (node for node in ast.walk(target) if isinstance(node, ast.Name))


def findings_in(path: Path, tree: ast.Module, decorators: set[str]) -> list[Finding]:
    """The findings in a module by line, given which functions are used as decorators anywhere."""
    findings = [*variable_findings(path, tree)]
    if path.parts[0] in PRODUCT:
        findings += function_findings(path, tree, decorators)
        findings += name_findings(path, tree)
    return sorted(findings, key=lambda finding: finding.line)


def all_findings(tops: Iterable[str] = (*PRODUCT, *SUPPORT)) -> list[Finding]:
    """Every finding in these folders and files, by file and line."""
    trees = {
        path.relative_to(ROOT): ast.parse(path.read_text())
        for top in tops
        for path in sorted([*(ROOT / top).rglob("*.py"), ROOT / top])
        if "node_modules" not in path.parts and path.suffix == ".py"
    }
    decorators = {name for tree in trees.values() for name in adjectives(tree)}
    found = (findings_in(path, tree, decorators) for path, tree in sorted(trees.items()))
    return [finding for findings in found for finding in findings]


def main() -> int:
    """Print what is to be mended, in all files or in those named; 1 if there is anything."""
    findings = all_findings(sys.argv[1:] or (*PRODUCT, *SUPPORT))
    print("\n".join(map(str, findings)) or "Names and docstrings are plain.")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
