"""The tutorial, command by command, as a new user would go it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from deploy.embedded.settings import CHECKOUT
from tests.ports import free_port
from tests.tutorial import commands, run

COPIED = ("cli", "deploy", "examples", "libs", "services")
OF_THE_USER = ("HEELER_", "LETTA_", "OPENAI_", "ANTHROPIC_", "XDG_", "VIRTUAL_ENV")


def checkout_in(folder: Path) -> Path:
    """What a clone has, in which everything is installed already."""
    for name in COPIED:
        shutil.copytree(CHECKOUT / name, folder / name, ignore=shutil.ignore_patterns("wheels"))
    for name in ("heeler", "pyproject.toml", "uv.lock"):
        shutil.copy(CHECKOUT / name, folder / name)
    (folder / ".venv").symlink_to(CHECKOUT / ".venv")
    return folder


def test_every_command_of_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    checkout = checkout_in(tmp_path)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(OF_THE_USER)}
    environment |= {"HEELER_PORT": str(free_port()), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    said = {command.splitlines()[0]: printed for command, printed, _ in run(checkout, environment)}
    assert len(said) == len({command.splitlines()[0] for command in commands()})
    assert "Whiskers" in said['./heeler agents send ada "What is my cat called?"']
    assert "cheerful" in said["./heeler diff -f agents || true"]
    assert "did you mean" in said["./heeler validate wrong.toml || true"].lower()
    assert "Whiskers" in said["./heeler blocks get human --agent ada"]
    assert "passed, 0 did not pass" in said["./heeler test agents/grace"]
    assert {"ada", "grace", "ada two"} <= {
        line[:7].strip() for line in said["./heeler agents list"].splitlines()
    }
