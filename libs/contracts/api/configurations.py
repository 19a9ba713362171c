"""The language of configurations: what became of the file that describes an agent, each time that
somebody applied it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from libs.contracts.bus_messages import Command, Event, Value
from libs.contracts.deterministic_ids import derived_id

SERVICE = "api"

PROBLEMS_MAX = 100
PATH_CHARS_MAX = 1_000
CODE_CHARS_MAX = 100
MESSAGE_CHARS_MAX = 2_000
LINE_MAX = 10_000_000

Path = Annotated[str, Field(max_length=PATH_CHARS_MAX)]
Place = Annotated[int, Field(ge=0, le=LINE_MAX)]
Message = Annotated[str, Field(max_length=MESSAGE_CHARS_MAX)]
ConfigurationStatus = Literal["applied", "rejected"]


class ConfigurationProblem(Value):
    """A problem in a file, its place, and its fix; lines and columns count from 1."""

    file: Path = ""
    line: Place | None = None
    column: Place | None = None
    code: Annotated[str, Field(max_length=CODE_CHARS_MAX)] = ""
    message: Message
    expected: Message | None = None
    suggestion: Message | None = None
    severity: Literal["error", "warning"] = "error"
    field: Path = ""


class Configuration(Value):
    """A file as it was when somebody applied it: where it stands, and a digest of all that it
    says."""

    file: str
    fingerprint: str
    status: ConfigurationStatus
    problems: list[ConfigurationProblem] = Field(default_factory=list)


def configuration_id(agent_id: str) -> str:
    """The id of the aggregate that knows what became of the file of an agent."""
    return derived_id("configuration", agent_id)


class ReportConfiguration(Command, service=SERVICE, topic="configuration.report"):
    """Record what became of the file of an agent; the same once more changes nothing."""

    agent_id: str
    configuration: Configuration

    @property
    def target(self) -> str:
        return configuration_id(self.agent_id)


class DeleteConfiguration(Command, service=SERVICE, topic="configuration.delete"):
    """Forget what is known of the file of an agent that was deleted."""

    agent_id: str

    @property
    def target(self) -> str:
        return configuration_id(self.agent_id)


class ConfigurationEvent(Event, service=SERVICE):
    """Something about the file of an agent."""

    agent_id: str

    @property
    def about(self) -> str:
        return self.agent_id


class ConfigurationApplied(ConfigurationEvent, topic="configuration.applied"):
    """The agent is as its file says; `problems` are warnings."""

    configuration: Configuration


class ConfigurationRejected(ConfigurationEvent, topic="configuration.rejected"):
    """The file of the agent was refused, and the agent stays as it was."""

    configuration: Configuration


class ConfigurationDeleted(ConfigurationEvent, topic="configuration.deleted"):
    """The agent was deleted, and nobody needs to know about its file any more."""
