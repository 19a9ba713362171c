"""`heeler remote`: servers by name."""

from __future__ import annotations

import os
import sys
from typing import Annotated

from typer import Argument, Option

from cli import remotes
from cli.commands import noun
from cli.output import columns, say, show_rows
from cli.server import base_url_of

app = noun("The servers that the command knows by name, with their keys.")


@app.command()
def add(
    name: Annotated[str, Argument(help="What it is called here.")],
    url: Annotated[str, Argument(help="Its address, as https://heeler.example.com")],
    key: Annotated[
        bool, Option("--key", help="Read its key or password from stdin, or ask for it.")
    ] = False,
) -> None:
    """Keep a server under a name."""
    secret = _secret() if key else None
    remotes.add(name, remotes.Remote(base_url_of(url), secret))
    say(f"Kept in {remotes.path()}.")
    say(f"Ask it with `--remote {name}`, or from now on: heeler remote use {name}")


@app.command("list")
def list_() -> None:
    """List them; the key is never shown."""
    kept = remotes.read()
    rows = [
        {"name": name, "url": remote.url, "key": bool(remote.key), "in_use": name == kept.use}
        for name, remote in sorted(kept.by_name.items())
    ]
    show_rows(rows, columns("name", "url", "key", "in_use"))


@app.command()
def use(
    name: Annotated[str | None, Argument(help="Without one: the server on this machine.")] = None,
) -> None:
    """Ask this server from now on, where a command does not say another."""
    remotes.use(name)
    say(f"Commands go to {name or 'the server on this machine'}.")


@app.command()
def remove(name: Annotated[str, Argument()]) -> None:
    """Forget a server, and its key."""
    remotes.remove(name)
    say(f"Forgot {name}.")


def _secret() -> str:
    if sys.stdin.isatty():
        import getpass

        return getpass.getpass("Key or password: ")
    return sys.stdin.read(1 << 16).strip() or os.environ.get("HEELER_API_KEY", "")
