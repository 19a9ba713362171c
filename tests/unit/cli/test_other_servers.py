"""Addresses that are written otherwise, that are of something else, or behind a proxy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import letta_client
import pytest

from cli.api_problems import explanation, is_heeler
from cli.exit_codes import ExitCode
from cli.proxies import is_of_this_machine, proxy_remark
from cli.server import _server
from tests.heeler_command import HeelerCommand
from tests.unit.cli.fleets import ADA
from tests.unit.cli.stand_in import StandIn

AGENT_ID = "agent-00000000-0000-4000-8000-000000000000"
PAGE = b"<!doctype html><title>Welcome to nginx</title>"
OTHERS: dict[str, tuple[int, Any]] = {
    "a page": (200, PAGE),
    "no page": (404, PAGE),
    "a web framework": (404, {"detail": "Not Found"}),
    "a model server": (404, {"error": {"code": 404, "message": "File Not Found"}}),
    "a text": (404, b"404 page not found"),
    "no method": (405, b"Method Not Allowed"),
    "an object": (200, {"hello": "world"}),
    "a list": (200, ["hello"]),
    "nothing": (200, None),
    "a proxy": (502, PAGE),
}
COMMANDS = [
    ("agents", "list"),
    ("agents", "get", "ada"),
    ("agents", "send", "ada", "Hello"),
    ("agents", "chat", "ada"),
    ("blocks", "list"),
    ("runs", "list"),
    ("approvals", "list"),
    ("tools", "list"),
    ("mcp", "list"),
    ("templates", "list"),
    ("projects", "list"),
    ("models", "list"),
    ("schedules", "list"),
    ("apply", "-f", "FILE"),
    ("diff", "-f", "FILE"),
    ("create", "--config", "FILE"),
]


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_what_is_no_heeler_is_told_in_one_sentence(
    command: HeelerCommand,
    stand_in: StandIn,
    tmp_path: Path,
    arguments: tuple[str, ...],
    other: str,
) -> None:
    stand_in.status, stand_in.body = OTHERS[other]
    command.monkeypatch.setattr("letta_client._base_client.INITIAL_RETRY_DELAY", 0.001)
    file = tmp_path / "ada.toml"
    file.write_text(ADA)
    given = [str(file) if argument == "FILE" else argument for argument in arguments]
    ended = command.run(*given, "--url", stand_in.url)
    assert (ended.code, ended.out) == (ExitCode.UNREACHABLE, "")
    [line] = ended.err.splitlines()
    assert line.startswith(f"{stand_in.url} does not answer as a Heeler does")
    assert "is the address right?" in line


def test_an_address_with_a_path_of_the_api_is_told(
    command: HeelerCommand, stand_in: StandIn
) -> None:
    stand_in.status, stand_in.body = 404, {"detail": "Not Found"}
    ended = command.run("agents", "list", "--url", f"{stand_in.url}/v1/agents")
    assert ended.code == ExitCode.UNREACHABLE
    assert f"{stand_in.url}/v1/agents does not answer as a Heeler does (404)" in ended.err


@pytest.mark.parametrize("behind", ["/", "/v1", "/v1/"])
@pytest.mark.parametrize("origin", ["--url", "HEELER_URL", "--remote"])
def test_what_other_clients_write_behind_an_address_is_left_out(
    command: HeelerCommand, stand_in: StandIn, origin: str, behind: str
) -> None:
    given = stand_in.url + behind
    if origin == "HEELER_URL":
        command.monkeypatch.setenv(origin, given)
    if origin == "--remote":
        command("remote", "add", "work", given)
    options = {"--url": ["--url", given], "--remote": ["--remote", "work"]}.get(origin, [])
    command("agents", "list", *options)
    command("version", *options)
    assert {path.partition("?")[0] for path, _ in stand_in.asked} == {"/v1/agents/", "/v1/health"}


@pytest.mark.parametrize(
    "url",
    [
        "heeler.example.com",
        "http://",
        "http://:8283",
        "http://[::1",
        "http://127.0.0.1:abc",
        "http://127.0.0.1:99999",
        "http://☃.example:1",
        "http://127.0.0.1\n.example:1",
    ],
)
@pytest.mark.parametrize(
    "words", [("remote", "add", "work"), ("agents", "list", "--url"), ("version", "--url")]
)
def test_what_is_no_address_is_refused(
    command: HeelerCommand, words: tuple[str, ...], url: str
) -> None:
    ended = command.run(*words, url)
    assert ended.code == ExitCode.USAGE
    assert "is no address of a server: write it as http://" in ended.err


def test_blanks_around_an_address_count_for_nothing(
    command: HeelerCommand, stand_in: StandIn
) -> None:
    assert command.json("agents", "list", "--url", f" {stand_in.url}\n") == []


SETTINGS = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")


def set_alone(command: HeelerCommand, **environment: str) -> None:
    """Have these variables and no others that say how servers are asked."""
    for name in SETTINGS:
        for written in (name, name.lower()):
            command.monkeypatch.delenv(written, raising=False)
    for name, value in environment.items():
        command.monkeypatch.setenv(name, value)
    _server.cache_clear()  # what was asked by another test has another proxy
    is_heeler.cache_clear()
    command.monkeypatch.setattr("letta_client._base_client.INITIAL_RETRY_DELAY", 0.001)


UNUSABLE = [
    {"ALL_PROXY": "socks5://x:1"},
    {"HTTP_PROXY": "garbage://x"},
    {"HTTP_PROXY": "http://h:abc"},
    {"HTTP_PROXY": "http://[::1"},
    {"HTTP_PROXY": "http://127.0.0.1:1", "NO_PROXY": "fe80::/10"},
    {"HTTP_PROXY": "http://127.0.0.1:1", "NO_PROXY": "[::1]"},
    {"SSL_CERT_FILE": "/nonexistent"},
]


@pytest.mark.parametrize("environment", UNUSABLE, ids=str)
def test_an_environment_that_cannot_be_used_is_named(
    command: HeelerCommand, stand_in: StandIn, environment: dict[str, str]
) -> None:
    set_alone(command, **environment)
    ended = command.run("agents", "list", "--url", "http://heeler.example:8283")
    assert ended.code == ExitCode.USAGE
    assert next(iter(environment)) in ended.err
    assert "cannot be used: " in ended.err
    assert command.json("agents", "list", "--url", stand_in.url) == []


def test_the_certificates_of_the_environment_count_on_this_machine(command: HeelerCommand) -> None:
    set_alone(command, SSL_CERT_FILE="/nonexistent")
    ended = command.run("agents", "list", "--url", "https://127.0.0.1:1")
    assert ended.code == ExitCode.USAGE
    assert "SSL_CERT_FILE or SSL_CERT_DIR cannot be used: " in ended.err


def test_a_key_that_cannot_be_sent_is_told(command: HeelerCommand, stand_in: StandIn) -> None:
    command.monkeypatch.setenv("HEELER_API_KEY", "kéy")
    ended = command.run("agents", "list", "--url", stand_in.url)
    assert ended.code == ExitCode.USAGE
    assert "characters that cannot be sent: is HEELER_API_KEY right?" in ended.err


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://localhost:1", True),
        ("http://localhost.:1", True),
        ("http://127.0.0.9", True),
        ("http://0.0.0.0:1", True),
        ("http://[::]:1", True),
        ("http://[::1]:1", True),
        ("http://[::ffff:127.0.0.1]:1", True),
        ("http://[::ffff:10.0.0.1]:1", False),
        ("http://10.0.0.1:1", False),
        ("http://heeler.example", False),
    ],
)
def test_an_address_of_this_machine_is_known_in_each_form(url: str, expected: bool) -> None:
    assert is_of_this_machine(url) == expected


REMARK = (
    "(asked through the proxy {}, of HTTP_PROXY and the like: NO_PROXY=heeler.example leaves it"
    " out)"
)


@pytest.mark.parametrize("status", [403, 404, 407])
def test_a_proxy_that_answers_itself_is_named(
    command: HeelerCommand, stand_in: StandIn, status: int
) -> None:
    stand_in.status, stand_in.body = status, b"<html>proxy says no</html>"
    set_alone(command, HTTP_PROXY=stand_in.url)
    ended = command.run("agents", "list", "--url", "http://heeler.example:8283")
    assert ended.code == ExitCode.UNREACHABLE
    assert ended.err.startswith("http://heeler.example:8283 does not answer as a Heeler does")
    assert ended.err.endswith(f" {REMARK.format(stand_in.url)}\n")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"HTTP_PROXY": "http://127.0.0.1:1"}, REMARK.format("http://127.0.0.1:1")),
        ({"ALL_PROXY": "http://me:secret@127.0.0.1:1"}, REMARK.format("127.0.0.1:1")),
        ({"HTTPS_PROXY": "http://127.0.0.1:1"}, ""),
        ({"HTTP_PROXY": "http://127.0.0.1:1", "NO_PROXY": "example"}, ""),
        ({}, ""),
    ],
)
def test_the_proxy_is_named_where_one_is_asked(
    command: HeelerCommand, environment: dict[str, str], expected: str
) -> None:
    set_alone(command, **environment)
    assert proxy_remark("http://heeler.example:8283").strip() == expected
    assert not proxy_remark("http://127.0.0.1:8283")


def test_a_certificate_that_is_not_trusted_is_told() -> None:
    request = httpx.Request("GET", "https://127.0.0.1:8283/v1/agents/")
    problem = letta_client.APIConnectionError(request=request)
    problem.__cause__ = httpx.ConnectError(
        "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate "
        "(_ssl.c:1000)"
    )
    assert str(explanation(problem)).startswith(
        "The certificate of https://127.0.0.1:8283 is not trusted (self-signed certificate): "
    )
    assert "SSL_CERT_FILE" in str(explanation(problem))


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
def test_a_server_of_this_machine_is_asked_without_the_proxy(
    command: HeelerCommand, stand_in: StandIn, variable: str
) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        command.monkeypatch.delenv(name, raising=False)
    command.monkeypatch.setenv(variable, "http://127.0.0.1:1")
    command.monkeypatch.setattr("letta_client._base_client.INITIAL_RETRY_DELAY", 0.001)
    stand_in.body = [{"name": "ada", "id": "agent-1"}]
    assert command.json("agents", "list", "--url", stand_in.url) == stand_in.body
    stand_in.body = {"server": "heeler 9", "version": "1"}
    assert command.json("version", "--url", stand_in.url)["server"] == "heeler 9"


def test_another_machine_is_asked_by_the_proxy(command: HeelerCommand, stand_in: StandIn) -> None:
    command.monkeypatch.setenv("HTTP_PROXY", stand_in.url)
    command.monkeypatch.setenv("http_proxy", stand_in.url)
    command("agents", "list", "--url", "http://heeler.example.com")
    (path, _) = stand_in.asked[0]
    assert path.startswith("http://heeler.example.com/v1/agents")


REDIRECTS = [("agents", "set", AGENT_ID, "--name", "eve"), ("agents", "delete", AGENT_ID, "-y")]


@pytest.mark.parametrize("status", [301, 302, 307])
@pytest.mark.parametrize("arguments", [*REDIRECTS, ("agents", "list")], ids=" ".join)
def test_a_server_that_sends_on_is_not_followed(
    command: HeelerCommand, stand_in: StandIn, arguments: tuple[str, ...], status: int
) -> None:
    """A redirected DELETE would be a GET, and be told as done."""
    stand_in.status = status
    stand_in.location = "https://heeler.example/behind/v1/agents/"
    ended = command.run(*arguments, "--url", stand_in.url)
    assert (ended.code, ended.out) == (ExitCode.UNREACHABLE, "")
    assert "sends requests on to https://heeler.example/behind, and nothing was done" in ended.err


def test_a_page_to_log_in_is_no_heeler(command: HeelerCommand, stand_in: StandIn) -> None:
    stand_in.status, stand_in.location = 302, "/login"
    ended = command.run("agents", "list", "--url", stand_in.url)
    assert ended.code == ExitCode.UNREACHABLE
    assert f"{stand_in.url} does not answer as a Heeler does (302)" in ended.err


def test_a_document_without_end_is_no_answer_of_a_heeler(
    command: HeelerCommand, stand_in: StandIn
) -> None:
    stand_in.body = b"[" * 100_000
    stand_in.is_json = True
    ended = command.run("agents", "list", "--url", stand_in.url)
    assert ended.code == ExitCode.UNREACHABLE
    assert f"{stand_in.url} does not answer as a Heeler does" in ended.err
    assert command.run("version", "--url", stand_in.url).code == ExitCode.OK


def test_what_answers_without_tls_is_told(command: HeelerCommand, stand_in: StandIn) -> None:
    command.monkeypatch.setattr("letta_client._base_client.INITIAL_RETRY_DELAY", 0.001)
    url = stand_in.url.replace("http:", "https:")
    ended = command.run("agents", "list", "--url", url)
    assert ended.code == ExitCode.UNREACHABLE
    assert f"What answers at {url} speaks no TLS: is it http:// there" in ended.err


@pytest.mark.parametrize("option", ["--url", "--remote"])
@pytest.mark.parametrize("words", [("agents", "list"), ("down",)], ids=" ".join)
def test_an_option_with_an_empty_text_asks_no_other_server(
    command: HeelerCommand, words: tuple[str, ...], option: str
) -> None:
    """As `--url "$SERVER"` where that variable is not set."""
    ended = command.run(*words, option, "")
    assert (ended.code, ended.out) == (ExitCode.USAGE, "")
    assert "an empty text names no server" in ended.err
