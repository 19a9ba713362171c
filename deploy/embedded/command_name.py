"""Name of the command, as printed advice has it."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from deploy.embedded.settings import CHECKOUT, IS_CHECKOUT


def command_name() -> str:
    """`heeler` where that is this installation, `./heeler` in a checkout, else a path to it."""
    script = CHECKOUT / "heeler"
    if not script.is_file():  # installed by pip or uv, beside the interpreter
        own = Path(sys.executable).with_name("heeler")
        found = own.is_file() and str(own.parent) not in os.get_exec_path()
        return shlex.quote(str(own)) if found else "heeler"
    here = Path.cwd()
    return "./heeler" if here == CHECKOUT else shlex.quote(str(script))


def launch_words(verb: str) -> str:
    """The command for `up`, `down` or `status` here: an installed command has no `make`."""
    return f"make {verb}" if IS_CHECKOUT else f"{command_name()} {verb}"
