"""The servers that have a name, with their keys, in a file that only its owner reads."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from cli.exit_codes import CommandError, ExitCode
from cli.user_folders import configuration_folder
from libs.contracts.outside_texts import decode_text


@dataclass(frozen=True)
class Remote:
    """A server: where it is, and what lets one in."""

    url: str
    key: str | None = None


@dataclass(frozen=True)
class Remotes:
    """All of them, and the one that is asked where nothing is said."""

    by_name: Mapping[str, Remote] = field(default_factory=dict)
    use: str | None = None


def path(environment: Mapping[str, str] = os.environ) -> Path:
    """`remotes.toml` in the user's configuration folder."""
    return configuration_folder(environment) / "remotes.toml"


def read(environment: Mapping[str, str] = os.environ) -> Remotes:
    """The content of the file. Raises CommandError if it is wrong, or others may read it."""
    file = path(environment)
    try:
        if file.stat().st_mode & 0o077:
            raise CommandError(f"Others may read the keys in {file}: chmod 600 {file}")
        document = tomllib.loads(decode_text(file.read_bytes()))
        by_name = {
            name: Remote(str(entry["url"]), entry.get("key"))
            for name, entry in document.get("remotes", {}).items()
        }
    except (FileNotFoundError, NotADirectoryError):
        return Remotes()
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise CommandError(f"{file} cannot be read: {problem}") from problem
    return Remotes(by_name, document.get("use"))


def remote_of(name: str) -> Remote:
    """The server of that name. Raises CommandError where there is none."""
    by_name = read().by_name
    if name not in by_name:
        known = ", ".join(sorted(by_name)) or "none"
        raise CommandError(f"There is no remote '{name}' (there are: {known})", ExitCode.NOT_FOUND)
    return by_name[name]


def add(name: str, remote: Remote) -> None:
    """Keep a server under a name, instead of what was kept under it."""
    kept = read()
    _write(replace(kept, by_name={**kept.by_name, name: remote}))


def remove(name: str) -> None:
    """Forget a server. Raises CommandError where there is none."""
    remote_of(name)
    kept = read()
    rest = {other: remote for other, remote in kept.by_name.items() if other != name}
    _write(Remotes(rest, None if kept.use == name else kept.use))


def use(name: str | None) -> None:
    """Ask that server where nothing is said; None: the one on this machine."""
    if name is not None:
        remote_of(name)
    _write(replace(read(), use=name))


def _write(remotes: Remotes) -> None:
    import tomlkit

    document = tomlkit.document()
    if remotes.use:
        document["use"] = remotes.use
    document["remotes"] = {
        name: {"url": remote.url, **({"key": remote.key} if remote.key else {})}
        for name, remote in sorted(remotes.by_name.items())
    }
    file = path()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = file.with_suffix(".new")
    beside.unlink(missing_ok=True)
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as writing:
        writing.write(tomlkit.dumps(document))
    beside.replace(file)
