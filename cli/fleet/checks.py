"""Checks of a fleet's files: security rules, and the things that the server has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cli.fleet.files import AgentFile, Checks
from cli.fleet.server_transport import Transport
from cli.server_catalogue import catalogue_of
from libs.agent_toml import Catalogue, RuleSet

# Lists of models leave these out, and they can be used all the same.
UNLISTED_PROVIDERS = ("demo", "scripted")
MISSING_ON_SERVER = frozenset({"AGT301", "AGT302", "AGT303"})


@dataclass
class ServerChecks:
    """Checks of files against a server, which is asked what it has when that is needed. The values
    of variables that files name are those of an environment."""

    transport: Transport
    rules: RuleSet
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    catalogue: Catalogue | None = None

    def current(self) -> Checks:
        """The checks, by what the server had when it was asked last."""
        if self.catalogue is None:
            self.catalogue = self._ask()
        return Checks(environment=self.environment, rules=self.rules, catalogue=self.catalogue)

    def forget_if_missing(self, file: AgentFile) -> None:
        """Ask the server again before the next look, if the file names what it did not have."""
        if any(problem.code in MISSING_ON_SERVER for problem in file.errors):
            self.catalogue = None

    def _ask(self) -> Catalogue:
        found = catalogue_of(self.transport)
        models = dict(found.models or {})
        for provider in UNLISTED_PROVIDERS:
            listed = self.transport.get("/v1/models/", provider_name=provider)
            models |= {model["handle"]: model["max_context_window"] for model in listed}
        return replace(found, models=models)
