"""Secrets as commands, events and rows may hold them: sealed (`libs/encryption`), never plain."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import StringConstraints

from libs.contracts.deterministic_ids import derived_id

SEALED = "sealed:"
FORM = rf"{SEALED}[\w=-]+"

# A text that was sealed; whatever is not of this form is refused, so that nothing plain is stored.
type Sealed = Annotated[str, StringConstraints(pattern=f"^{FORM}$")]


def is_sealed(text: str) -> bool:
    """Whether a text has the form of a sealed one."""
    return re.fullmatch(FORM, text, re.ASCII) is not None


def all_sealed(values: Mapping[str, str]) -> bool:
    """Whether all of these values have the form of sealed texts."""
    return all(map(is_sealed, values.values()))


def secret_id(agent_id: str, name: str) -> str:
    """The id of a secret of an agent."""
    return derived_id("agent-env", agent_id, name)
