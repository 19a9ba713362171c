"""Capabilities of agents, as they declare them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from libs.contracts.letta.request_size_limits import Text

CAPABILITIES_MAX = 64
CAPABILITY_NAME_CHARS_MAX = 100
PRIORITY_MAX = 1_000

# Names stand in paths and in prompts.
type CapabilityName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=CAPABILITY_NAME_CHARS_MAX,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._:\-]*$",
    ),
]
type Priority = Annotated[int, Field(ge=-PRIORITY_MAX, le=PRIORITY_MAX)]


class Capability(BaseModel):
    """One thing that an agent can do. Messages go to the agent of the highest priority first."""

    model_config = ConfigDict(frozen=True)

    name: CapabilityName
    description: Text | None = None
    priority: Priority = 0


def _from_name(given: Any) -> Any:
    """A name alone means a capability without a description."""
    return {"name": given} if isinstance(given, str) else given


def _names_differ(capabilities: Sequence[Capability]) -> Sequence[Capability]:
    names = [capability.name for capability in capabilities]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"the capability '{name}' stands there twice: name it once")
    return capabilities


type Capabilities = Annotated[
    list[Annotated[Capability, BeforeValidator(_from_name)]],
    Field(max_length=CAPABILITIES_MAX),
    AfterValidator(_names_differ),
]
