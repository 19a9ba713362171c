"""The commands and configurations in docs/operations.md, as a reader would copy them."""

from __future__ import annotations

import re
import shutil

from deploy.embedded.settings import CHECKOUT

PAGE = CHECKOUT / "docs" / "operations.md"
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What a machine may lack: the blocks that need it are not run there, and the test says so.
OPTIONAL_PROGRAMS = ("nats", "jq", "logrotate")


def blocks(language: str) -> list[str]:
    """The blocks of a language, in the order of the page."""
    return [text for found, text in FENCED.findall(PAGE.read_text()) if found == language]


def missing_programs(block: str) -> list[str]:
    """The programs that a block of commands starts and that are not installed here."""
    started = [name for name in OPTIONAL_PROGRAMS if re.search(rf"(^|[|(]\s*){name} ", block, re.M)]
    return [name for name in started if not shutil.which(name)]
