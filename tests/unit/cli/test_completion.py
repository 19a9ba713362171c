"""What shells are told to complete."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cli.exit_codes import ExitCode
from tests.heeler_command import HeelerCommand

CHECKOUT = Path(__file__).parents[3]
# As bash does when somebody types a tab: words, then the function that is registered.
ASK = """
heeler() {{ "{python}" -m cli "$@"; }}
source /dev/stdin <<< "$SCRIPT"
[[ $(complete -p heeler) == *_heeler_completion* ]] || exit 9
env() {{ command env PYTHONPATH="{checkout}" "${{@:1:3}}" "{python}" -m cli; }}
COMP_WORDS=({words}); COMP_CWORD={last}
_heeler_completion heeler
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def completed(command: HeelerCommand, *words: str) -> list[str]:
    """What bash offers where these words are typed, and a tab after the last."""
    quoted = " ".join(f"'{word}'" for word in ("heeler", *words))
    values = {"python": sys.executable, "checkout": CHECKOUT, "words": quoted, "last": len(words)}
    ended = subprocess.run(
        ["bash", "--norc", "-c", ASK.format(**values)],
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": "/nowhere",
            "SCRIPT": command("completion", "bash").out,
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stderr == ""
    return ended.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("arch",), ["archives"]),
        (("archives", "pas"), ["passages"]),
        (("schedules", "create", "--cr"), ["--cron"]),
        (("nothing", "of", "the"), []),
    ],
    ids=lambda value: " ".join(value),
)
def test_bash_completes_commands_verbs_and_options(
    command: HeelerCommand, words: tuple[str, ...], offered: list[str]
) -> None:
    assert completed(command, *words) == offered


@pytest.mark.parametrize("shell", ["zsh", "fish", "powershell"])
def test_other_shells_have_a_script_of_their_own(command: HeelerCommand, shell: str) -> None:
    script = command("completion", shell).out
    assert "heeler" in script
    assert "_HEELER_COMPLETE" in script
    assert f"complete_{shell}" in script


def test_a_shell_that_nobody_knows_is_refused(command: HeelerCommand) -> None:
    ended = command.run("completion", "tcsh")
    assert ended.code == ExitCode.USAGE
    assert "bash" in ended.err
