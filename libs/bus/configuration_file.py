"""The configuration file: read, checked, and translated into the variables that services read.

The environment comes first, then the file, then the default. Each process has one file at most: the
one that HEELER_CONFIG names, else `heeler.toml` in the home, where there is a home.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from libs.bus.toml_lines import key_lines, line_of
from libs.contracts.configuration.catalogue import CONFIG_VARIABLE, KEYS, names_in_file
from libs.contracts.configuration.key import Key, Kind, Value
from libs.contracts.environment_parsing import WrongSetting
from libs.contracts.outside_texts import decode_text

FILE_BYTES_MAX = 1 << 20
SECRET_BYTES_MAX = 1 << 16
OTHERS_MAY_READ = 0o044
DEFAULT, FILE, ENVIRONMENT = "default", "file", "environment"


class WrongConfiguration(WrongSetting):
    """A configuration file that cannot be used; a line of the text for each of its problems."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of a key's value: nothing (`default`), a line of the `file`, or a variable of the
    `environment`."""

    kind: str
    where: str = ""

    def __str__(self) -> str:
        return self.where or self.kind


@dataclass(frozen=True, slots=True)
class FileValue:
    """A key's value in the file: the text of its variable, and where it stands."""

    text: str
    where: str


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings of a server. `environment` is the environment with what the file adds to it;
    `before` is the environment alone."""

    environment: Mapping[str, str]
    before: Mapping[str, str]
    file: Path | None = None
    given: Mapping[str, FileValue] = field(default_factory=dict)  # by the names of keys
    warnings: tuple[str, ...] = ()

    def origin(self, key: Key) -> Origin:
        """The source of this key's value."""
        if name := variable_set(key, self.before):
            return Origin(ENVIRONMENT, name)
        if given := self.given.get(key.name):
            return Origin(FILE, given.where)
        return Origin(DEFAULT)

    def text(self, key: Key) -> str | None:
        """The value as its variable has it; None where the default holds."""
        name = variable_set(key, self.before) or key.variable
        return self.environment.get(name) or None

    def explain(self, problem: WrongSetting) -> str:
        """The problem, with the line of the file where the variable gets its value."""
        name = re.match(r"\w+", str(problem))
        for key in KEYS:
            origin = self.origin(key)
            if name and name[0] in key.variables and origin.kind == FILE:
                return f"{origin.where}: {key.name}: {problem}"
        return str(problem)


def variable_set(key: Key, environment: Mapping[str, str]) -> str:
    """The variable that sets a key in an environment; empty if none does."""
    return next((name for name in key.variables if environment.get(name)), "")


def read_configuration(
    environment: Mapping[str, str], default_file: Path | None = None
) -> Configuration:
    """The settings of an environment and of its file, which is the one that HEELER_CONFIG names,
    else `default_file` if there is one. Raises WrongConfiguration."""
    before = dict(environment)
    if named := environment.get(CONFIG_VARIABLE):
        return from_file(before, Path(named).expanduser().absolute())
    if default_file and is_there(default_file):
        return from_file(before, default_file.absolute())
    return Configuration(before, before)


def is_there(file: Path) -> bool:
    """Whether there is something by that name, if only a link to nowhere or what nobody lets us
    see: then the settings in it may not be left out without a word."""
    try:
        file.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def from_file(before: Mapping[str, str], file: Path) -> Configuration:
    """The settings of an environment and this file. Raises WrongConfiguration."""
    text = read_text(file, FILE_BYTES_MAX, str(file))
    try:
        document = tomllib.loads(text)
    except ValueError as problem:  # a number of thousands of digits is one as well
        raise WrongConfiguration(f"{file}: this is no TOML: {problem}") from problem
    reading = FileReader(file, key_lines(text))
    reading.read(document)
    if reading.problems:
        raise WrongConfiguration("\n".join(reading.problems))
    added = {
        key.variable: reading.given[key.name].text
        for key in KEYS
        if key.name in reading.given and not variable_set(key, before)
    }
    if reading.has_secrets and file.stat().st_mode & OTHERS_MAY_READ:
        reading.warnings.append(f"{file}: others may read the secrets in it: chmod 600 {file}")
    return Configuration({**before, **added}, before, file, reading.given, tuple(reading.warnings))


def add_file_to(environment: MutableMapping[str, str]) -> tuple[str, ...]:
    """Set the variables that the file of HEELER_CONFIG adds; returns the warnings. For a process
    that no launcher started. Raises WrongConfiguration."""
    configuration = read_configuration(environment)
    environment.update(configuration.environment)
    return configuration.warnings


class FileReader:
    """The findings in a file: the values of keys, problems, and names that nobody knows."""

    def __init__(self, file: Path, lines: Mapping[tuple[str, ...], int]) -> None:
        self.file = file
        self.lines = lines
        self.given: dict[str, FileValue] = {}
        self.problems: list[str] = []
        self.warnings: list[str] = []
        self.has_secrets = False
        self.known = dict(names_in_file())
        self.tables = {name.rpartition(".")[0] for name in self.known}
        self.tables |= {name.partition(".")[0] for name in self.tables}

    def read(self, document: Mapping[str, Any]) -> None:
        """Go through all that the file says."""
        for path, value in entries(document, self.known):
            name = ".".join(path)
            where = f"{self.file}:{line_of(self.lines, path)}"
            if name in self.tables:
                self.problems.append(f"{where}: {name} must be a table, not {kind_of(value)}")
            elif key := self.known.get(name):
                self.read_key(key, name, value, where)
            else:
                close = difflib.get_close_matches(name, self.known, n=1, cutoff=0.6)
                advice = f": did you mean {close[0]}?" if close else "; see docs/configuration.md"
                self.warnings.append(f"{where}: there is no key {name}{advice}")

    def read_key(self, key: Key, name: str, value: Any, where: str) -> None:
        """Take the value of a key, or note what is wrong with it."""
        try:
            text = self.secret_of(name, value) if name != key.name else text_of(key, value)
        except WrongSetting as problem:
            self.problems.append(f"{where}: {name} {problem}")
            return
        if key.name in self.given:
            self.problems.append(
                f"{where}: there are {key.name} and {key.file_name}: leave one of them out"
            )
        elif key.kind is Kind.PATH:
            text = str(self.file.parent / Path(text).expanduser())
        self.has_secrets |= key.secret and name == key.name
        self.given[key.name] = FileValue(text, where)

    def secret_of(self, name: str, value: Any) -> str:
        """The content of the file of a secret."""
        if not isinstance(value, str) or not value:
            raise WrongSetting(f"must be the path of a file, not {kind_of(value)}")
        path = self.file.parent / Path(value).expanduser()
        text = read_text(path, SECRET_BYTES_MAX, f"names {path}, which").strip()
        if not text:
            raise WrongSetting(f"names {path}, which is empty")
        return text


def entries(
    document: Mapping[str, Any], known: Collection[str], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each value with its path."""
    for name, value in document.items():
        path = (*above, name)
        if isinstance(value, dict) and ".".join(path) not in known:
            yield from entries(value, known, path)
        else:
            yield path, value


def text_of(key: Key, value: Any) -> str:
    """A value of the file as the variable has it. Raises WrongSetting."""
    if not fits(key.kind, value):
        raise WrongSetting(f"must be a {key.kind}, not {kind_of(value)}")
    if value == "" or (value == [] and key.words_for_empty is None):
        raise WrongSetting("is empty: leave it out to have the default")
    if isinstance(value, list) and any("," in word or not word.strip() for word in value):
        raise WrongSetting("must be texts without commas, none of them empty")
    text = key.text_of(value)
    if "\0" in text:
        raise WrongSetting("holds a null character, which no variable can")
    return text


def fits(kind: Kind, value: Value) -> bool:
    """Whether a value is of a kind."""
    match kind:
        case Kind.YES_OR_NO:
            return isinstance(value, bool)
        case Kind.WHOLE_NUMBER:
            return isinstance(value, int) and not isinstance(value, bool)
        case Kind.NUMBER:
            return isinstance(value, int | float) and not isinstance(value, bool)
        case Kind.LIST:
            return isinstance(value, list) and all(isinstance(word, str) for word in value)
        case Kind.TEXT | Kind.PATH:
            return isinstance(value, str)


def kind_of(value: Any) -> str:
    """The type of a value of a file, in words."""
    match value:
        case bool():
            return "true or false"
        case int():
            return "a whole number"
        case float():
            return "a number with a fraction"
        case "":
            return "an empty text"
        case str():
            return "a text"
        case list():
            return "a list"
        case dict():
            return "a table"
        case _:
            return "a date or a time"


def read_text(path: Path, bytes_max: int, what: str) -> str:
    """The text of a file. Raises WrongConfiguration, which begins with `what`."""
    try:
        with path.open("rb") as file:
            content = file.read(bytes_max + 1)
        if len(content) > bytes_max:
            raise WrongConfiguration(f"{what} is larger than {bytes_max:,} bytes")
        return decode_text(content)
    except OSError as problem:
        raise WrongConfiguration(f"{what} cannot be read: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise WrongConfiguration(f"{what} is no text in UTF-8") from problem
