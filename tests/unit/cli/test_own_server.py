"""The server that is started for tests alone."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from cli.agent_tests import own_server
from cli.exit_codes import CommandError

THEIRS = {
    "HEELER_HOME": "/home/ada/.heeler",
    "HEELER_PASSWORD": "secret",
    "OPENAI_API_KEY": "key",
}


class Launched:
    """The words and environments with which the launcher was called."""

    def __init__(self, code: int = 0) -> None:
        self.code = code
        self.calls: list[tuple[str, Mapping[str, str]]] = []

    def __call__(
        self, word: str, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        self.calls.append((word, environment))
        Path(environment["HEELER_HOME"], "left").touch()
        return subprocess.CompletedProcess([word], self.code if word == "up" else 0, "", "no room")


def test_it_has_a_home_and_a_port_of_its_own_and_is_gone_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    launched = Launched()
    monkeypatch.setattr(own_server, "_launch", launched)
    with suppress(KeyboardInterrupt), own_server.own_server(THEIRS) as server:
        [(word, environment)] = launched.calls
        home = Path(environment["HEELER_HOME"])
        assert (word, home.is_dir()) == ("up", True)
        assert server.where.url == f"http://127.0.0.1:{environment['HEELER_PORT']}"
        raise KeyboardInterrupt
    assert environment == {
        "OPENAI_API_KEY": "key",
        "HEELER_HOME": str(home),
        "HEELER_PORT": environment["HEELER_PORT"],
    }
    assert launched.calls[1:] == [("down", environment)]
    assert not home.exists()


def test_one_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    launched = Launched(code=1)
    monkeypatch.setattr(own_server, "_launch", launched)
    with pytest.raises(CommandError, match="no room"), own_server.own_server({}):
        pass
    assert [word for word, _ in launched.calls] == ["up", "down"]
    assert not Path(launched.calls[0][1]["HEELER_HOME"]).exists()
