"""One example of each message about the files that describe agents."""

from __future__ import annotations

from datetime import UTC, datetime

from libs.contracts.api.configurations import (
    Configuration,
    ConfigurationApplied,
    ConfigurationDeleted,
    ConfigurationProblem,
    ConfigurationRejected,
    DeleteConfiguration,
    ReportConfiguration,
    configuration_id,
)
from libs.contracts.bus_messages import Command, Event
from tests.contract.identity_examples import AGENT

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CONFIGURATION = configuration_id(AGENT)
APPLIED = Configuration(file="agents/ada.toml", fingerprint="sha256:1", status="applied")
REJECTED = Configuration(
    file="agents/ada.toml",
    fingerprint="sha256:2",
    status="rejected",
    problems=[
        ConfigurationProblem(
            file="agents/ada.toml",
            line=3,
            column=1,
            code="unknown_key",
            message="`modle` is no key of an agent",
            expected="a key of an agent",
            suggestion="model",
            severity="error",
            field="modle",
        )
    ],
)


def of_configuration[E: Event](kind: type[E], **fields: object) -> E:
    """An event of the file of the agent."""
    stored = {"originator_id": CONFIGURATION, "originator_version": 1, "timestamp": AT}
    return kind.model_validate({**stored, "agent_id": AGENT, **fields})


CONFIGURATION_COMMANDS: list[Command] = [
    ReportConfiguration(agent_id=AGENT, configuration=REJECTED),
    DeleteConfiguration(agent_id=AGENT),
]
CONFIGURATION_EVENTS: list[Event] = [
    of_configuration(ConfigurationApplied, configuration=APPLIED),
    of_configuration(ConfigurationRejected, configuration=REJECTED),
    of_configuration(ConfigurationDeleted),
]
SUBJECTS = {
    "ReportConfiguration": f"api.command.configuration.report.org-1.{CONFIGURATION}",
    "DeleteConfiguration": f"api.command.configuration.delete.org-1.{CONFIGURATION}",
    **{
        f"Configuration{verb}": f"api.event.configuration.{verb.lower()}.org-1.{AGENT}"
        for verb in ("Applied", "Rejected", "Deleted")
    },
}
