"""`heeler config`: what the server on this machine is set to, and what sets it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from cli.commands import noun
from cli.exit_codes import CommandError, ExitCode
from cli.options import OPTIONS
from cli.output import columns, say, show_json, show_rows, show_text

if TYPE_CHECKING:
    from libs.bus.configuration_file import Configuration
    from libs.contracts.configuration.key import Key

app = noun("The configuration of the server on this machine: its file and its environment.")

HIDDEN = "********"


@app.local_command()
def show(
    origin: Annotated[bool, Option("--origin", help="Show what sets each key.")] = False,
) -> None:
    """Show each key with its value; what is secret is hidden."""
    from deploy.embedded.settings import launch_configuration
    from libs.contracts.configuration.catalogue import KEYS

    configuration = launch_configuration()
    shown = columns("key", "value") | (columns(origin=_origin_words) if origin else {})
    show_rows([describe(configuration, key) for key in KEYS], shown)
    _tell_notes(configuration)


@app.local_command()
def get(key: Annotated[str, Argument(metavar="KEY", help="As in server.port.")]) -> None:
    """Print the value of one key; what is secret is hidden."""
    from deploy.embedded.settings import launch_configuration

    show_text(describe(launch_configuration(), key_named(key))["value"])


@app.local_command()
def validate() -> None:
    """Check the file and the environment as the services would; nothing is changed. The sandbox
    that they name is tried with a call."""
    from deploy.doctor.trial_checks import sandbox_problems
    from deploy.embedded.service_settings import setting_problems
    from deploy.embedded.settings import LaunchError, launch_configuration
    from deploy.embedded.unused_variables import unused_lines

    warnings, file = unused_lines(os.environ), None
    try:
        configuration = launch_configuration()
    except LaunchError as problem:
        problems = str(problem).splitlines()
    else:
        problems = setting_problems(configuration) or sandbox_problems(configuration)
        warnings, file = [*configuration.warnings, *warnings], configuration.file
    if OPTIONS.json:
        found = {"file": str(file) if file else None, "problems": problems, "warnings": warnings}
        show_json(found)
    else:
        for line in (*warnings, *problems):
            say(line)
    if problems:
        raise typer.Exit(ExitCode.REFUSED)
    say(f"The configuration can be used: {file or 'there is no file, only the environment'}")


def describe(configuration: Configuration, key: Key) -> dict[str, Any]:
    """A key as `config show --json` prints it."""
    origin, text = configuration.origin(key), configuration.text(key)
    return {
        "key": key.name,
        "value": (HIDDEN if key.secret else without_logins(text)) if text else key.default_words,
        "default": key.default_words,
        "origin": {"kind": origin.kind, "where": origin.where},
        "variable": key.variable,
        "secret": key.secret,
        "needs_start": key.needs_start,
    }


def without_logins(text: str) -> str:
    """The same without what only who is let in should know: logins and queries of addresses."""
    import re

    hidden = re.sub(r"(\w://)[^\s,]*@", rf"\1{HIDDEN}@", text)
    return re.sub(r"(://[^\s,?]*\?)[^\s,]+", rf"\1{HIDDEN}", hidden)


def key_named(name: str) -> Key:
    """The key of that name. Raises CommandError, with what is like it."""
    import difflib

    from libs.contracts.configuration.catalogue import KEYS

    known = {key.name: key for key in KEYS}
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean '{close[0]}'?" if close else ""
        raise CommandError(f"There is no key '{name}'.{hint}", ExitCode.NOT_FOUND)
    return known[name]


def _origin_words(row: Any) -> str:
    """The line of the file, which is named below the table, the variable, or that it is neither."""
    return str(row["origin"]["where"]).rpartition("/")[2] or str(row["origin"]["kind"])


def _tell_notes(configuration: Configuration) -> None:
    """Print the settings without effect, and whether a server runs with other values."""
    from deploy.embedded.unused_variables import unused_lines

    if configuration.file:
        say(f"The file is {configuration.file}")
    for line in (*configuration.warnings, *unused_lines(os.environ)):
        say(line)
    if names := _names_with_other_values(configuration):
        say(f"The server runs with other values of {', '.join(names)}: heeler config reload")


def _names_with_other_values(configuration: Configuration) -> list[str]:
    """The keys of the file with whose values the server on this machine does not run, and would
    after a reload."""
    from deploy.embedded.service_environment import changed_variables, fingerprints
    from deploy.embedded.settings import home_of
    from deploy.embedded.state import HomeLock, open_secrets, read_state
    from libs.bus.configuration_file import FILE
    from libs.contracts.configuration.catalogue import KEYS

    home = home_of(os.environ)
    if not (home / "lock").exists() or HomeLock(home).holder() is None:
        return []
    state, key = read_state(home), open_secrets(home).nats_password
    now = fingerprints(configuration.environment, key)
    changed = changed_variables(state.variables, now) if state else []
    keys = [key for key in KEYS if configuration.origin(key).kind == FILE and not key.needs_start]
    return [key.name for key in keys if key.variable in changed]


@app.command()
def reload() -> None:
    """Load the configuration anew: all of it, or nothing where it cannot be used."""
    from cli.reloads import ask_for_reload, wait_for_end

    document = wait_for_end(*ask_for_reload())
    attempt = document["reloads"][-1]
    if OPTIONS.json:
        show_json(document)
    else:
        for line in attempt["warnings"]:
            say(line)
        show_text(f"{attempt['status']}, version {document['version']}")
        for title in ("changed", "replaced", "needs_start"):
            if attempt[title]:
                say(f"{title.replace('_', ' ')}: {', '.join(attempt[title])}")
    if attempt["problems"]:
        code = ExitCode.REFUSED if attempt["status"] == "refused" else ExitCode.FAILED
        raise CommandError("\n".join(attempt["problems"]), code)
