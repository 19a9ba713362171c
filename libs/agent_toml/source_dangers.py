"""Dangers in the source of a tool, found in its syntax tree and never run."""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import groupby, islice

NODES_MAX = 50_000
DANGERS_MAX = 100

# A node of a source, and the node that it stands in.
type Around = tuple[ast.AST, ast.AST | None]


@dataclass(frozen=True, slots=True)
class Danger:
    """A danger: its kind, the line of the source, and the text there."""

    kind: str
    line: int
    what: str


# Names as they are called, with the modules that they are imported from.
CALLS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("subprocess", "os.system", "os.popen", "os.spawn*", "os.exec*", "os.posix_spawn*"),
            *("os.fork", "os.forkpty", "pty", "asyncio.create_subprocess_*", "sh", "pexpect"),
            *("commands", "multiprocessing"),
        ),
        "programs",
    ),
    **dict.fromkeys(
        ("eval", "exec", "compile", "__import__", "importlib.import_module", "builtins.eval",
         "builtins.exec", "code.Interactive*", "ctypes"),
        "evaluation",
    ),
    **dict.fromkeys(("socket", "socketserver", "paramiko", "telnetlib", "ftplib"), "sockets"),
    **dict.fromkeys(
        ("pickle.load*", "marshal.load*", "shelve", "dill", "yaml.unsafe_load", "jsonpickle"),
        "unpickling",
    ),
}  # fmt: skip
CALLS_BY_MODULE: Mapping[str, Sequence[str]] = {
    module: [*patterns]
    for module, patterns in groupby(sorted(CALLS), key=lambda name: name.partition(".")[0])
}
ENVIRONMENT = "os.environ"
DECODERS = ("base64.*", "codecs.decode", "zlib.decompress", "bytes.fromhex", "binascii.*")
SECRET_PLACES = re.compile(
    r"/etc/(passwd|shadow|sudoers)|\.ssh(/|$)|id_(rsa|ed25519|ecdsa)|\.aws/|\.kube/config"
    r"|\.netrc|\.docker/config|/proc/(self|\d+)/environ|\.git-credentials|\.gnupg"
    r"|169\.254\.169\.254|metadata\.google\.internal|/run/secrets",
    re.IGNORECASE,
)
# Without one of these a source has none of the dangers, unless it spells names in other letters.
HINTS = re.compile(
    r"\b(?:"
    + "|".join(sorted({re.escape(name.rstrip("*_").split(".")[0]) for name in CALLS}))
    + r")|getattr|environ|/etc/|\.ssh|id_|\.aws|\.kube|netrc|\.docker|/proc/|\.git-|gnupg"
    r"|169\.254|metadata\.google|/run/",
    re.IGNORECASE,
)


def may_be_dangerous(source: str) -> bool:
    """Whether a source has to be looked at: it names something dangerous, or spells names in other
    letters."""
    return not source.isascii() or HINTS.search(source) is not None


def dangers_in(module: ast.Module) -> tuple[Danger, ...]:
    """The dangers of a Python source, each once."""
    nodes = list(islice(_with_what_is_around(module), NODES_MAX))
    names = dict(_imported(node for node, _ in nodes))
    decoders = _around_decoders(nodes, names)
    found = (danger for node, _ in nodes for danger in _dangers_of(node, names, decoders))
    return tuple(dict.fromkeys(islice(found, DANGERS_MAX)))


def _with_what_is_around(module: ast.Module) -> Iterator[Around]:
    """Every node of a source, level by level, and which node each stands in."""
    waiting: deque[Around] = deque([(module, None)])
    while waiting:
        node, around = waiting.popleft()
        yield node, around
        waiting.extend((below, node) for below in ast.iter_child_nodes(node))


def _around_decoders(nodes: Sequence[Around], names: Mapping[str, str]) -> Set[ast.AST]:
    """The nodes that have a call of a decoder in them, or are one."""
    found: set[ast.AST] = set()
    for node, around in reversed(nodes):
        if node not in found and isinstance(node, ast.Call):
            called = _full_name(node.func, names)
            if any(_fits(called, pattern) for pattern in DECODERS):
                found.add(node)
        if node in found and around is not None:
            found.add(around)
    return found


def _imported(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """The names that imports give, and what each of them is."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (
                    alias.asname or alias.name.partition(".")[0],
                    (alias.name if alias.asname else alias.name.partition(".")[0]),
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _dangers_of(
    node: ast.AST, names: Mapping[str, str], decoders: Set[ast.AST]
) -> Iterator[Danger]:
    if isinstance(node, ast.Call):
        called = _full_name(node.func, names)
        kind = _kind_of(called)
        if kind:
            yield Danger(kind, node.lineno, called)
        if kind == "evaluation" and any(argument in decoders for argument in node.args):
            yield Danger("hiding", node.lineno, f"{called} of decoded text")
        if called == "getattr" and _is_hidden_attribute(node):
            yield Danger("hiding", node.lineno, "getattr of a name that is put together")
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        found = SECRET_PLACES.search(node.value)
        if found and not _is_documentation(node.value):
            yield Danger("secrets", node.lineno, found[0])
    elif _is_environment(node, names):
        yield Danger("environment", getattr(node, "lineno", 0), ENVIRONMENT)


def _is_environment(node: ast.AST, names: Mapping[str, str]) -> bool:
    """Whether an expression is the whole environment. Of longer names nothing is read."""
    is_short = isinstance(node, ast.Name) or (
        isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    )
    return is_short and _full_name(node, names) == ENVIRONMENT


def _is_documentation(text: str) -> bool:
    return len(text.split()) > 8


def _full_name(node: ast.AST, names: Mapping[str, str]) -> str:
    """The dotted name of an expression, with what its first part was imported as."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    first = names.get(node.id, node.id)
    return ".".join([first, *reversed(parts)])


def _kind_of(called: str) -> str:
    for pattern in CALLS_BY_MODULE.get(called.partition(".")[0], ()):
        if _fits(called, pattern):
            return CALLS[pattern]
    return ""


def _fits(called: str, pattern: str) -> bool:
    if pattern.endswith("*"):
        return called.startswith(pattern[:-1])
    return called == pattern or called.startswith(f"{pattern}.")


def _is_hidden_attribute(call: ast.Call) -> bool:
    """Whether the name of an attribute is put together or decoded."""
    return len(call.args) > 1 and isinstance(call.args[1], ast.BinOp | ast.JoinedStr | ast.Call)
