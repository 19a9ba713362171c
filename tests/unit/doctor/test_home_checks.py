"""The port of the API, and what others may read."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from deploy.doctor import home_checks
from deploy.doctor.examined import Examined
from deploy.doctor.findings import State
from deploy.doctor.settings_checks import check_variables
from deploy.embedded.api_health import Health


def test_a_port_that_containers_of_this_home_have_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home_checks, "read_health", lambda *_: Health(server="heeler/1"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        examined = Examined({"HEELER_HOME": str(tmp_path), "HEELER_PORT": port})
        assert home_checks.check_port(examined).state is State.PROBLEM
        (tmp_path / "compose.env").touch(mode=0o600)
        assert home_checks.check_port(examined).state is State.OK


def test_the_fix_of_a_file_with_secrets_that_others_may_read_closes_it(tmp_path: Path) -> None:
    file = tmp_path / "heeler.toml"
    file.write_text("server.password = 'x'\nserver.prot = 1\n")
    file.chmod(0o644)
    unknown, readable = check_variables(Examined({"HEELER_HOME": str(tmp_path)}))
    assert unknown.fix == f"${{EDITOR:-vi}} +2 {file}"
    assert readable.fix == f"chmod 600 {file}"
