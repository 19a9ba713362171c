"""A configuration file: the environment counts before it, it counts before the default, each key
changes what a service reads, and what is wrong is said with its line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from deploy.configuration_page import PAGE, SCHEMA, page, schema_text
from deploy.embedded.service_environment import of_service
from deploy.embedded.service_settings import READERS, require_service_settings
from deploy.embedded.settings import ALL_SERVICES, LaunchError, read_settings, settings_of
from libs.bus.configuration_file import (
    Configuration,
    WrongConfiguration,
    add_file_to,
    fits,
    read_configuration,
)
from libs.contracts.configuration.catalogue import KEYS, WITHOUT_KEY, read_variables
from libs.contracts.configuration.key import Key
from services.api.settings import UnsafeSettings

Environment = Mapping[str, str]
Reader = Callable[[Environment], object]

FILES = {
    "prices.toml": (
        'version = "ours"\n[[prices]]\nmodel = "openai/ours"\ninput = "1"\noutput = "2"\n'
    ),
    "mcp-servers.toml": ('[servers.notes]\nurl = "https://notes.example/mcp"\n'),
    "mcp-commands.toml": '[[command]]\nargv = ["/bin/true"]\n',
}
# Without these some settings count for nothing: an organisation without a key, and the like.
BESIDE = {
    "server.password": "long",
    "models.openai.api_key": "a key",
    "telemetry.endpoint": "http://localhost:9",
}


class ReadNames(Mapping[str, str]):
    """An environment that remembers which variables it was asked for."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.names.add(name)
        return self._environment[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._environment)

    def __len__(self) -> int:
        return len(self._environment)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def written(folder: Path, text: str) -> Path:
    file = folder / "heeler.toml"
    file.write_text(text)
    file.chmod(0o600)
    return file


def toml(values: Mapping[str, Any]) -> str:
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())


def configured(folder: Path, values: Mapping[str, Any]) -> Configuration:
    return read_configuration({}, written(folder, toml(values)))


def settings(environment: Environment) -> list[object]:
    """What each reader makes of an environment."""
    launched = settings_of({**environment, "HEELER_HOME": "/"})
    own = (launched.host, launched.port, launched.processes, launched.replicas)
    return [own, launched.frozen_seconds_max, *(read(environment) for read in READERS)]


def outcome(environment: Environment) -> list[object] | str:
    """The settings, or why there are none: an address that others reach needs a password."""
    try:
        return settings(environment)
    except UnsafeSettings as problem:
        return str(problem)


def test_every_variable_that_somebody_reads_has_a_key_or_a_reason_to_have_none() -> None:
    asked = ReadNames({})
    settings_of(asked)
    for read in READERS:
        read(asked)

    assert asked.names <= read_variables()
    assert read_variables() - asked.names <= WITHOUT_KEY.keys()


def test_names_and_variables_of_keys_are_there_once() -> None:
    names = [key.name for key in KEYS]
    variables = [name for key in KEYS for name in key.variables]
    assert len(set(names)) == len(names)
    assert len({*variables, *WITHOUT_KEY}) == len(variables) + len(WITHOUT_KEY)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_a_key_of_the_file_changes_what_a_service_reads(key: Key, folder: Path) -> None:
    beside = {} if key.name == "server.published_on" else BESIDE
    before = configured(folder, beside).environment
    after = configured(folder, {**beside, key.name: key.example}).environment

    assert outcome(before) == outcome(before)  # so that a difference is one of the key
    assert outcome(after) != outcome(before)


@pytest.mark.parametrize(
    "key", [key for key in KEYS if key.default is not None], ids=lambda key: key.name
)
def test_the_default_in_the_file_changes_nothing(key: Key, folder: Path) -> None:
    beside = configured(folder, BESIDE).environment
    said = configured(folder, {**BESIDE, key.name: key.default})
    assert settings(said.environment) == settings(beside)
    assert said.origin(key).kind == "file"


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_the_environment_counts_before_the_file(key: Key, folder: Path) -> None:
    file = written(folder, toml({key.name: key.example}))
    for name in key.variables:
        found = read_configuration({name: "of the environment"}, file)
        assert (found.text(key), str(found.origin(key))) == ("of the environment", name)
        assert {*found.environment} == {name}
        empty = read_configuration({name: ""}, file)
        assert empty.origin(key).where == f"{file}:1"
        assert empty.environment[key.variable]


@pytest.mark.parametrize(
    ("key", "choice"),
    [(key, choice) for key in KEYS for choice in key.choices],
    ids=lambda value: getattr(value, "name", value),
)
def test_every_choice_can_be_chosen(key: Key, choice: str, folder: Path) -> None:
    settings(configured(folder, {key.name: choice}).environment)


@pytest.mark.parametrize(
    "key", [key for key in KEYS if key.words_for_empty is not None], ids=lambda key: key.name
)
def test_an_empty_list_is_no_unset_one(key: Key, folder: Path) -> None:
    settings(configured(folder, {key.name: []}).environment)
    allows = key.default_text == "all"
    assert (settings(configured(folder, {key.name: []}).environment) != settings({})) is allows


WRONG: list[tuple[str, str]] = [
    ('[server]\nport = "8283"', "2: server.port must be a whole number, not a text"),
    ("[server]\nport = true", "2: server.port must be a whole number, not true or false"),
    ("\n\nserver.port = 1.5", "3: server.port must be a whole number, not a number with a"),
    ("[server]\nhost = ''", "2: server.host is empty: leave it out"),
    ("[server]\ncors_origins = []", "2: server.cors_origins is empty: leave it out"),
    ('[tools]\nallowed = ["a,b"]', "2: tools.allowed must be texts without commas"),
    ("[tools]\nallowed = 'a'", "2: tools.allowed must be a list of texts, not a text"),
    ("server = 1", "1: server must be a table, not a whole number"),
    ("[server]\nport = 1\nport = 2", "this is no TOML: Cannot overwrite a value (at"),
    ("[server", "this is no TOML: "),
    ('server.password_file = "none"', "1: server.password_file names "),
    ('server.password_file = "heeler.toml"\nserver.password = "p"', "leave one of them out"),
    ("[server.port]\nx = 1", "1: server.port must be a whole number, not a table"),
    ('[server]\nhost = "a\\u0000b"', "2: server.host holds a null character"),
]


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_what_is_wrong_is_said_with_its_line(text: str, said: str, folder: Path) -> None:
    file = written(folder, text)
    with pytest.raises(WrongConfiguration) as refused:
        read_configuration({"HEELER_CONFIG": str(file)})
    assert str(refused.value).startswith(f"{file}:")
    assert said in str(refused.value)


def test_all_that_is_wrong_is_said_at_once(folder: Path) -> None:
    file = written(folder, '[server]\nport = "a"\nreplicas = "b"')
    with pytest.raises(WrongConfiguration) as refused:
        read_configuration({}, file)
    assert len(str(refused.value).splitlines()) == 2

    file = written(folder, '[server]\nport = 99999\nlog_level = "loud"')
    with pytest.raises(LaunchError) as launch:
        require_service_settings({"HEELER_CONFIG": str(file)})
    port, log_level = str(launch.value).splitlines()
    assert port.startswith(f"{file}:2: server.port: HEELER_PORT is '99999'")
    assert log_level.startswith(f"{file}:3: server.log_level: HEELER_LOG_LEVEL is 'loud'")


def test_a_name_that_nobody_knows_is_named_once_with_what_is_like_it(folder: Path) -> None:
    text = '[server]\nprot = 1\n[models.openia]\napi_key = "k"\n[teapot]\nlid = 1\n'
    file = written(folder, text)
    prot, openia, teapot = read_configuration({}, file).warnings
    assert prot == f"{file}:2: there is no key server.prot: did you mean server.port?"
    assert openia.startswith(f"{file}:4: there is no key models.openia.api_key")
    assert openia.endswith("did you mean models.openai.api_key?")
    assert teapot == f"{file}:6: there is no key teapot.lid; see docs/configuration.md"


def test_a_secret_stands_in_a_file_of_its_own_or_others_may_not_read_it(folder: Path) -> None:
    (folder / "key.txt").write_text("sk-1\n")
    file = written(folder, toml({"models.openai.api_key_file": "key.txt"}))
    file.chmod(0o644)
    found = read_configuration({}, file)
    assert found.environment == {"OPENAI_API_KEY": "sk-1"}
    assert not found.warnings

    file = written(folder, toml({"models.openai.api_key": "sk-2"}))
    assert not read_configuration({}, file).warnings
    file.chmod(0o644)
    (warning,) = read_configuration({}, file).warnings
    assert f"chmod 600 {file}" in warning
    assert "sk-2" not in warning


def test_paths_begin_at_the_folder_of_the_file(folder: Path) -> None:
    found = configured(folder, {"models.prices_file": "prices.toml"}).environment
    assert found == {"HEELER_PRICES": str(folder / "prices.toml")}
    absolute = configured(folder, {"models.prices_file": "/etc/prices.toml"}).environment
    assert absolute == {"HEELER_PRICES": "/etc/prices.toml"}


def test_the_file_is_that_of_the_variable_else_that_of_the_home(folder: Path) -> None:
    written(folder, "server.port = 8301\n")
    other = folder / "other.toml"
    other.write_text("server.port = 8302\n")
    home = {"HEELER_HOME": str(folder)}
    assert read_settings(home).port == 8301
    assert read_settings({**home, "HEELER_CONFIG": str(other)}).port == 8302
    assert read_settings({**home, "HEELER_PORT": "8303"}).port == 8303
    with pytest.raises(LaunchError, match=r"nowhere\.toml cannot be read: No such file"):
        read_settings({**home, "HEELER_CONFIG": "/nowhere.toml"})
    (folder / "heeler.toml").unlink()
    (folder / "heeler.toml").symlink_to("/nowhere.toml")
    with pytest.raises(LaunchError, match=r"heeler\.toml cannot be read: No such file"):
        read_settings(home)


def test_a_service_that_no_launcher_starts_reads_the_file_itself(folder: Path) -> None:
    file = written(folder, toml({"server.log_level": "debug", "server.prot": 1}))
    environment = {"HEELER_CONFIG": str(file)}
    (warning,) = add_file_to(environment)
    assert environment == {"HEELER_CONFIG": str(file), "HEELER_LOG_LEVEL": "debug"}
    assert "server.prot" in warning


def test_a_service_of_the_launcher_is_not_told_of_the_file() -> None:
    given = {"HEELER_CONFIG": "/x", "HEELER_LOG_LEVEL": "debug"}
    assert of_service(ALL_SERVICES, given) == {"HEELER_LOG_LEVEL": "debug"}


def test_keys_in_texts_over_several_lines_are_none(folder: Path) -> None:
    text = '[server]\nhost = """\nport = 1\n"""\nport = "x"\n'
    with pytest.raises(WrongConfiguration, match=r":5: server\.port must be"):
        read_configuration({}, written(folder, text))


def test_the_page_and_the_schema_are_up_to_date() -> None:
    advice = "run `python -m deploy.configuration_page`"
    assert PAGE.read_text() == page(), advice
    assert SCHEMA.read_text() == schema_text(), advice


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_a_key_has_a_sentence_and_an_example_of_its_kind(key: Key) -> None:
    assert key.text.endswith(".")
    assert key.example != key.default
    assert fits(key.kind, key.example)
