"""Reports on the file that describes an agent, each time that somebody applied it. None of it is in
V1."""

from __future__ import annotations

from typing import Annotated, Self

from litestar import Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from libs.contracts.api.configurations import (
    PATH_CHARS_MAX,
    PROBLEMS_MAX,
    Configuration,
    ConfigurationProblem,
    ConfigurationStatus,
    ReportConfiguration,
    configuration_id,
)
from libs.contracts.letta.request_size_limits import NAME_CHARS_MAX
from services.api.adapters.resource_query_builder import Resource
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, body_of
from services.api.openapi.operation import get, put
from services.api.resources.agents.agents import AGENTS
from services.api.v1.read_model_responses import must_exist

PATH = "/v1/agents/{agent_id:str}/configuration"
CONFIGURATIONS = Resource(
    kind="configuration",
    view="api.configuration_view",
    document="json_build_object('agent_id', v.agent_id, 'applied', v.applied,"
    " 'rejected', v.rejected)",
)


class ReportedConfiguration(BaseModel):
    """A report on a file: its place, a digest of its content, and its problems, which for an
    applied file are warnings."""

    model_config = ConfigDict(extra="forbid")

    file: Annotated[str, Field(min_length=1, max_length=PATH_CHARS_MAX)]
    fingerprint: Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX)]
    status: ConfigurationStatus
    problems: Annotated[
        list[ConfigurationProblem], Field(default_factory=list, max_length=PROBLEMS_MAX)
    ]

    @model_validator(mode="after")
    def says_why(self) -> Self:
        """Whether a file that was rejected comes with a reason."""
        if self.status == "rejected" and not self.problems:
            raise ValueError("`problems`: a rejected file has at least one: say what is wrong")
        return self


@put(PATH, "configuration of an agent", body=ReportedConfiguration)
async def report_configuration(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Report what became of the file that describes an agent: it was applied, or rejected and the
    agent is as before. The events of the agent show it; the same report again changes nothing."""
    body = await body_of(request, ReportedConfiguration)
    await must_exist(request, AGENTS, agent_id)
    reported = Configuration.model_validate(body.model_dump())
    command = ReportConfiguration(agent_id=agent_id, configuration=reported)
    await api_of(request).send(request, command)
    return await answer_configuration(request, agent_id)


@get(PATH, "configuration of an agent")
async def retrieve_configuration(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Retrieve which file of the agent was applied last, and which one was rejected since, with
    what is wrong in it."""
    await must_exist(request, AGENTS, agent_id)
    return await answer_configuration(request, agent_id)


async def answer_configuration(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """The last report on an agent's file, or the 404 that there is none."""
    reads, org = api_of(request).reads, org_of(request)
    found = await reads.one(CONFIGURATIONS, org, configuration_id(agent_id))
    if found is None:
        detail = (
            f"No configuration was reported for agent {agent_id}: `heeler apply` reports one for"
            " each file that it applies"
        )
        raise Problem(404, {"detail": detail})
    return raw(found)
