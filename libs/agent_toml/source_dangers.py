"""What the source of a tool does that is dangerous, found in its syntax tree and never run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from libs.agent_toml.tool_sources import UnusableSource, module_of

NODES_MAX = 50_000
DANGERS_MAX = 100


@dataclass(frozen=True, slots=True)
class Danger:
    """What was found: which kind, in which line of the source, and what stands there."""

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


def dangers_in(source: str) -> list[Danger]:
    """The dangers of a Python source, each once; none where it cannot be parsed."""
    if source.isascii() and HINTS.search(source) is None:
        return []
    try:
        tree = module_of(source)
    except UnusableSource:
        return []
    nodes: list[ast.AST] = []
    for node in ast.walk(tree):
        nodes.append(node)
        if len(nodes) > NODES_MAX:
            break
    names = dict(_imported(nodes))
    found = (danger for node in nodes for danger in _dangers_of(node, names))
    return list(dict.fromkeys(islice(found, DANGERS_MAX)))


def _imported(nodes: list[ast.AST]) -> Iterator[tuple[str, str]]:
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


def _dangers_of(node: ast.AST, names: Mapping[str, str]) -> Iterator[Danger]:
    if isinstance(node, ast.Call):
        called = _full_name(node.func, names)
        kind = _kind_of(called)
        if kind:
            yield Danger(kind, node.lineno, called)
        if kind == "evaluation" and _decodes(node, names):
            yield Danger("hiding", node.lineno, f"{called} of decoded text")
        if called == "getattr" and _is_hidden_attribute(node):
            yield Danger("hiding", node.lineno, "getattr of a name that is put together")
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        found = SECRET_PLACES.search(node.value)
        if found and not _is_documentation(node.value):
            yield Danger("secrets", node.lineno, found[0])
    elif _full_name(node, names) == "os.environ":
        yield Danger("environment", getattr(node, "lineno", 0), "os.environ")


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
    if not called:
        return ""
    for pattern, kind in CALLS.items():
        if _fits(called, pattern):
            return kind
    return ""


def _fits(called: str, pattern: str) -> bool:
    if pattern.endswith("*"):
        return called.startswith(pattern[:-1])
    return called == pattern or called.startswith(f"{pattern}.")


def _decodes(call: ast.Call, names: Mapping[str, str]) -> bool:
    """Whether an argument of a call is decoded within it."""
    inner = [node for argument in call.args for node in ast.walk(argument)]
    called = [_full_name(node.func, names) for node in inner if isinstance(node, ast.Call)]
    return any(_fits(name, pattern) for name in called for pattern in DECODERS)


def _is_hidden_attribute(call: ast.Call) -> bool:
    """Whether the name of an attribute is put together or decoded."""
    return len(call.args) > 1 and isinstance(call.args[1], ast.BinOp | ast.JoinedStr | ast.Call)
