"""The packages that tools ask for: which may be installed, and what a set of them is called."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

REQUIREMENTS_MAX = 100
KEY_CHARS = 40
# No option, no address and no path: a name, its extras, and the beginning of a version.
NAME = re.compile(
    r"([A-Za-z0-9](?:[A-Za-z0-9._-]{0,100}[A-Za-z0-9])?)(\[[A-Za-z0-9,._-]{1,100}\])?"
)
VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+!*_-]{0,60}")

type Requirement = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class PackageRules:
    """The operator's rules on packages of tools. Without `allowed` it is everything but what is
    `denied`; names are normalized."""

    on: bool = True
    allowed: frozenset[str] | None = None
    denied: frozenset[str] = frozenset()

    def refusal(self, requirements: Sequence[Requirement]) -> str:
        """Why these cannot be installed; empty if they can."""
        if not requirements:
            return ""
        if not self.on:
            return "This server installs no packages for tools (HEELER_PACKAGES=0): import none"
        if wrong := problem_of_requirements(requirements):
            return wrong
        return self.problem_of_names([name for name, _ in requirements])

    def problem_of_names(self, names: Sequence[str]) -> str:
        """Why tools may not ask for these packages, which names one of them; empty if they may."""
        for name in map(normalize_name, names):
            if self.allowed is not None and name not in self.allowed:
                return f"`pip_requirements`: {name} is not among the packages that tools may have"
        return self.denial(names)

    def denial(self, names: Iterable[str]) -> str:
        """Which of these no tool may have, also not because another package needs it."""
        found = next((name for name in map(normalize_name, names) if name in self.denied), None)
        return f"`pip_requirements`: {found} is a package that tools may not have" if found else ""


def problem_of_requirements(requirements: Sequence[Requirement]) -> str:
    """Why these are no valid names and versions of packages; empty if they are."""
    if len(requirements) > REQUIREMENTS_MAX:
        return f"`pip_requirements`: at most {REQUIREMENTS_MAX} packages"
    for name, version in requirements:
        if NAME.fullmatch(name) is None:
            return f"`pip_requirements`: {name[:50]!r} is no name of a package, such as numpy"
        if version is not None and VERSION.fullmatch(version) is None:
            return f"`pip_requirements`: {version[:50]!r} is no version, such as 2.1.0"
    return ""


def normalize_name(name: str) -> str:
    """The name of a package as indexes compare it, without extras."""
    return re.sub(r"[-_.]+", "-", name.partition("[")[0]).lower()


def requirements_in(wanted: Iterable[Mapping[str, object]]) -> list[Requirement]:
    """Names and versions, as a tool says them."""
    return [
        (str(item.get("name")), str(item["version"]) if item.get("version") else None)
        for item in wanted
    ]


def specifiers(of_all: Sequence[Requirement], of_tool: Sequence[Requirement]) -> tuple[str, ...]:
    """The packages of a tool and of all tools, each once, as an installer reads them: what the tool
    says counts."""
    named = {normalize_name(name): (name, version) for name, version in (*of_all, *of_tool)}
    return tuple(
        sorted(f"{name}=={version}" if version else name for name, version in named.values())
    )


def environment_key(packages: Sequence[str], org: str, generation: int) -> str:
    """The key of the environment with these packages. An organisation that had its packages
    installed anew shares none any more."""
    own = [org, generation] if generation else []
    said = json.dumps([*sys.version_info[:2], sorted(packages), own])
    return sha256(said.encode()).hexdigest()[:KEY_CHARS]
