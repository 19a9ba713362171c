"""Values of environment variables. Whatever cannot be used is refused by one sentence, which names
the variable and what it has to be, and its value, unless that may be a secret.

A variable that is empty is not set: compose files hand on what nobody gave.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Collection, Mapping

Environment = Mapping[str, str]

DIGITS_MAX = 9
# A scheme, maybe a login, a host, maybe a port, maybe a path and a query.
ADDRESS = r"({schemes})://([^\s/?#]*@)?(\[[\da-f:.]+\]|[^\s/?#@:\[\]]+)(:\d{{1,5}})?([/?#]\S*)?"
# What a browser sends as Origin: a scheme, a host, maybe a port; also of desktop programs.
ORIGIN = r"[a-z][a-z\d+.-]*://([\w.-]+|\[[\da-f:.]+\])(:\d{1,5})?"
HIDDEN = "its value is not shown, since it may hold a password"


class WrongSetting(Exception):
    """A variable has a value that cannot be used."""


class MissingSetting(WrongSetting):
    """A variable that a service cannot do without is not set."""


def require(environment: Environment, name: str) -> str:
    """The value of a variable that must be set. Raises MissingSetting."""
    value = environment.get(name)
    if not value:
        raise MissingSetting(f"{name} is not set: start the services with `make up`")
    return value


def whole_number(
    environment: Environment, name: str, default: int, *, least: int = 1, most: int
) -> int:
    """A whole number from `least` to `most`. Raises WrongSetting."""
    text = environment.get(name) or str(default)
    digits = re.fullmatch(rf"\d{{1,{DIGITS_MAX}}}", text, re.ASCII)
    if digits is None or not least <= int(text) <= most:
        raise wrong(name, text, f"it must be a whole number from {least} to {most}")
    return int(text)


def seconds(environment: Environment, name: str, default: float) -> float:
    """A number of seconds above 0, with a fraction or without. Raises WrongSetting."""
    text = environment.get(name) or str(default)
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise wrong(name, text, "it must be a number of seconds above 0")
    return number


def one_of(environment: Environment, name: str, words: Collection[str], default: str) -> str:
    """One of some words. Raises WrongSetting."""
    value = environment.get(name) or default
    if value not in words:
        *others, last = words
        raise wrong(name, value, f"it must be {', '.join(others)} or {last}")
    return value


def word(environment: Environment, name: str) -> str:
    """A variable as a part of names on the bus; empty if not set. Raises WrongSetting."""
    value = environment.get(name, "")
    if re.fullmatch(r"[\w.-]*", value, re.ASCII) is None:
        raise wrong(name, value, "use letters, digits, '.', '-' and '_' only")
    return value


def host(environment: Environment, name: str, default: str = "") -> str:
    """A host name or an IP address, which may stand in brackets. Raises WrongSetting."""
    value = environment.get(name) or default
    if re.fullmatch(r"[\w.-]*", value, re.ASCII) is None and not is_ip_address(value):
        raise wrong(name, value, "it must be an IP address or the name of a host, without a port")
    return value


def is_ip_address(value: str) -> bool:
    """Whether it is one, of either kind; in brackets or not."""
    try:
        ipaddress.ip_address(value.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def address(environment: Environment, name: str, schemes: Collection[str]) -> str:
    """An address that begins with one of these schemes and names a host; empty if it is not set.
    Raises WrongSetting, which does not show the value."""
    value = environment.get(name, "")
    usable = re.fullmatch(ADDRESS.format(schemes="|".join(schemes)), value, re.IGNORECASE)
    if value and (usable is None or not value.isprintable()):
        like = " or ".join(f"{scheme}://host" for scheme in schemes)
        raise WrongSetting(f"{name} is no address: it must be like {like} ({HIDDEN})")
    return value


def origins(environment: Environment, name: str, words: Collection[str]) -> tuple[str, ...]:
    """Origins of web pages, or words that stand for some, with commas between; none if it is not
    set. Raises WrongSetting."""
    named = [part.strip().lower() for part in environment.get(name, "").split(",")]
    found = tuple(origin for origin in named if origin)
    for origin in found:
        if origin not in words and re.fullmatch(ORIGIN, origin, re.ASCII) is None:
            said = " or ".join(words)
            must = f"it must be like https://app.example:8080, without a path, or be {said}"
            raise wrong(name, origin, must)
    return found


def database_address(environment: Environment, name: str) -> str:
    """An address of Postgres, which may name several hosts or a folder with a socket. Raises
    MissingSetting, and WrongSetting, which does not show the value."""
    value = require(environment, name)
    if not value.startswith(("postgresql://", "postgres://")):
        raise WrongSetting(
            f"{name} is no address of Postgres: it must be like"
            f" postgresql://user:password@host/database ({HIDDEN})"
        )
    return value


def header_text(environment: Environment, name: str) -> str:
    """The value of a variable that is sent in a header, such as a key; empty if it is not set.
    Raises WrongSetting, which does not show the value."""
    value = environment.get(name, "")
    if not (value.isascii() and value.isprintable()):
        raise WrongSetting(
            f"{name} has a character that cannot be sent, such as a line break or an accent:"
            f" copy it again ({HIDDEN})"
        )
    return value


def wrong(name: str, value: str, must: str) -> WrongSetting:
    """The error about a value that may be shown."""
    return WrongSetting(f"{name} is {value!r}: {must}")
