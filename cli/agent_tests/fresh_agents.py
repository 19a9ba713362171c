"""Agents that are made for one case each, from the files that scenarios name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from cli.agent_tests.agent_files import create_request
from cli.agent_tests.agent_under_test import AgentUnderTest
from cli.agent_tests.scenario_files import ScenarioFile
from cli.agent_tests.scenarios import ModelKind, Scenario
from cli.server import Server
from libs.contracts.agent.scripted_replies import HANDLE, METADATA_KEY

TAG = "heeler-test"  # of every agent that was made for a test
SUFFIX_CHARACTERS = 8


class FreshAgents:
    """Makes the agents of cases on a server, and deletes them again."""

    def __init__(self, server: Server, kind: ModelKind | None = None) -> None:
        self.server = server
        self.kind = kind

    def kind_of(self, scenario: Scenario) -> ModelKind:
        """Which model answers in a scenario."""
        return self.kind or scenario.kind

    @contextmanager
    def fresh(self, file: ScenarioFile) -> Iterator[AgentUnderTest]:
        """An agent of this scenario, deleted in the end, however that comes."""
        scenario = file.scenario
        kind = self.kind_of(scenario)
        request = create_request(file.agent_file)
        request["name"] = f"{request['name']}-test-{uuid4().hex[:SUFFIX_CHARACTERS]}"
        request["tags"] = [*request.get("tags", []), TAG]
        if kind != "real":
            request["model"] = HANDLE
            replies = [reply.model_dump(exclude_defaults=True) for reply in scenario.model]
            request["metadata"] = {**request.get("metadata", {}), METADATA_KEY: replies}
        agent: Any = self.server.post("/v1/agents/", request)
        try:
            yield AgentUnderTest(self.server, agent, scenario.mocks, kind)
        finally:
            self.server.delete(f"/v1/agents/{agent['id']}")
