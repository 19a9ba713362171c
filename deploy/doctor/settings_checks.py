"""Checks of the environment: wrong values, names that nobody reads, and access."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import islice

from deploy.doctor.examined import BUS_VARIABLE, DATABASE_VARIABLES, Examined, variables_of
from deploy.doctor.findings import Finding, ok, problem, skip, warning
from deploy.embedded.encryption_keys import KEYS_FILE
from deploy.embedded.service_settings import READERS
from deploy.embedded.settings import LaunchError, launch_configuration, settings_of
from deploy.embedded.unused_variables import unused_lines
from libs.bus.configuration_file import Configuration
from libs.contracts.environment_parsing import WrongSetting
from libs.contracts.listening_address import is_loopback
from libs.contracts.service_registry import ENCRYPTION_KEYS
from libs.encryption.sealer import Sealer
from services.api.settings import UnsafeSettings

WRONG_MAX = 20
PASSWORD_CHARS_MIN = 12
PASSWORDS = ("HEELER_PASSWORD", "LETTA_SERVER_PASSWORD")
NEW_PASSWORD = 'export HEELER_PASSWORD="$(head -c 24 /dev/urandom | base64)"'
# Names of the command, and of what the launcher gives to services; whoever examines a server whose
# addresses are named sets them.
READ_HERE = (*DATABASE_VARIABLES, BUS_VARIABLE, "HEELER_SERVICE_PASSWORDS")


def check_settings(examined: Examined) -> list[Finding]:
    """Values that a service would refuse to start with, and a file that cannot be read."""
    try:
        configuration = launch_configuration(examined.given)
    except LaunchError as wrong:
        return [
            problem(line, _edit(line, "<the configuration file>"))
            for line in str(wrong).splitlines()[:WRONG_MAX]
        ]
    found = list(islice(_wrong(configuration), WRONG_MAX))
    return found or [ok("every value can be used")]


def _wrong(configuration: Configuration) -> Iterator[Finding]:
    """Each wrong value once: a reader stops at the first, so it is asked again without that."""
    left = dict(configuration.environment)
    for read in (settings_of, *READERS):
        for _ in range(WRONG_MAX):
            try:
                read(left)
            except UnsafeSettings:  # `password` tells of it
                break
            except WrongSetting as found:
                named = variables_of(found, left)
                text = configuration.explain(found)
                of_file = not any(name in configuration.before for name in named)
                unset = f"unset {' '.join(named)}"
                yield problem(text, _edit(text, str(configuration.file)) if of_file else unset)
                if not named:
                    break
                for name in named:
                    del left[name]
            else:
                break


def _edit(text: str, file: str) -> str:
    """The command that opens the line of the file of which a text speaks."""
    found = re.match(r"(?P<file>/.+?):(?P<line>\d+):", text)
    if found is None:
        return f"${{EDITOR:-vi}} {shlex.quote(file)}"
    return f"${{EDITOR:-vi}} +{found['line']} {shlex.quote(found['file'])}"


def _command_in(text: str) -> str:
    """The command that a text ends with, if it does."""
    return "".join(re.findall(r": (chmod \d+ .+)$", text))


def check_variables(examined: Examined) -> list[Finding]:
    """Variables that are set in vain, and keys of the file that nobody knows."""
    found = [
        warning(text, _command_in(text) or _edit(text, str(examined.configuration.file)))
        for text in examined.configuration.warnings
    ]
    ours = {name: value for name, value in examined.given.items() if name not in READ_HERE}
    found += [
        warning(line.removesuffix("."), f"unset {line.partition(' ')[0]}")
        for line in unused_lines(ours)
    ]
    return found or [ok("every variable that is set is read")]


def check_password(examined: Examined) -> Finding:
    """Whether somebody could come in who should not."""
    host = examined.settings.host
    password = next(filter(None, map(examined.environment.get, PASSWORDS)), "")
    if not password and not is_loopback(host):
        return problem(
            f"HEELER_HOST={host} can be reached from other machines, and there is no password",
            NEW_PASSWORD,
        )
    if not password and "*" in examined.environment.get("HEELER_CORS_ORIGINS", "").split(","):
        return problem(
            "HEELER_CORS_ORIGINS=* lets every web site use this server, and there is no password",
            NEW_PASSWORD,
        )
    if password and len(password) < PASSWORD_CHARS_MIN and not is_loopback(host):
        return warning(
            f"the password has fewer than {PASSWORD_CHARS_MIN} characters, and other machines can"
            " reach this server",
            NEW_PASSWORD,
        )
    if not password:
        return ok("this machine alone can reach the server, without a password")
    return ok("there is a password")


def check_encryption_keys(examined: Examined) -> Finding:
    """Whether the keys of secrets are there."""
    given = examined.environment.get(ENCRYPTION_KEYS)
    path = examined.home / KEYS_FILE
    if not given and not path.exists():
        if examined.state and examined.state.has_database:
            return problem(
                f"{path} is missing, and the secrets of agents cannot be read without it",
                f"cp <your copy of {KEYS_FILE}> {shlex.quote(str(path))}",
            )
        return ok("made at the first start")
    try:
        keys_of(examined)
    except WrongSetting:
        return skip(f"{ENCRYPTION_KEYS} cannot be used: see `settings`")
    except (OSError, ValueError):
        return problem(
            f"{path} is damaged: the secrets of agents cannot be read without its keys",
            f"cp <your copy of {KEYS_FILE}> {shlex.quote(str(path))}",
        )
    return ok(f"read from {ENCRYPTION_KEYS if given else path}")


def keys_of(examined: Examined) -> Sealer:
    """The opener of this installation's secrets. Raises OSError and ValueError for a file that
    cannot be read, WrongSetting for a variable."""
    given = examined.environment.get(ENCRYPTION_KEYS)
    return Sealer.from_environment({ENCRYPTION_KEYS: given}) if given else keys_of_home(examined)


def keys_of_home(examined: Examined) -> Sealer:
    """The keys in the home. Raises OSError and ValueError."""
    keys = ",".join((examined.home / KEYS_FILE).read_text(encoding="ascii").split())
    try:
        return Sealer.from_environment({ENCRYPTION_KEYS: keys})
    except WrongSetting as found:
        raise ValueError(str(found)) from found
