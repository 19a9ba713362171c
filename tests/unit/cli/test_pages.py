"""The reference of the command and its manual page: generated, current, and well-formed."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from cli.__main__ import SECTIONS
from cli.exit_codes import ExitCode
from cli.pages import MANUAL, PAGE, man, page_text
from cli.reference import ENVIRONMENT
from tests.heeler_command import HeelerCommand

MACROS = {".TH", ".SH", ".SS", ".TP", ".PP", ".B", ".br", ".RS", ".RE"}


@pytest.fixture
def manual(command: HeelerCommand) -> str:
    return command("man").out


def test_both_pages_are_what_the_commands_say(manual: str) -> None:
    advice = "run python -m cli.pages, and look at the change"
    assert PAGE.read_text() == page_text(), advice
    assert MANUAL.read_text() == man.page() == manual, advice


def test_the_reference_has_every_command_exit_code_and_variable() -> None:
    text = PAGE.read_text()
    for entries in SECTIONS.values():
        for name in entries:
            assert re.search(rf"^(### )?`heeler {name}\b", text, re.MULTILINE), name
    for code in ExitCode:
        assert f"| {int(code)} | " in text
    for names in ENVIRONMENT:
        assert all(f"`{name}`" in text for name in names.split(", "))


def test_lines_of_the_manual_are_text_or_known_macros(manual: str) -> None:
    lines = manual.splitlines()
    assert lines[1].startswith(".TH HEELER 1 ")
    indent = 0
    for number, line in enumerate(lines, start=1):
        assert line.isascii(), f"{number}: {line}"
        macro = line.split(" ")[0]
        if line.startswith((".", "'")) and not line.startswith('.\\"'):
            assert macro in MACROS, f"{number}: {line}"
            assert line.count('"') in (0, 2) or macro == ".TH", f"{number}: {line}"
        indent += {".RS": 1, ".RE": -1}.get(macro, 0)
        assert indent in (0, 1), f"{number}: {line}"
        assert not re.search(r"(?<!\\)-", line) or line.startswith('.\\"'), f"{number}: {line}"
    assert indent == 0


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed here")
def test_groff_has_nothing_to_warn_of(manual: str) -> None:
    words = ["groff", "-man", "-Tascii", "-ww", "-z"]
    ended = subprocess.run(words, input=manual, text=True, capture_output=True, check=True)
    assert ended.stderr == ""
