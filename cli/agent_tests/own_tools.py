"""Tools whose source stands beside an agent's file, on the server while its tests run."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import Any

from cli.exit_codes import CommandError, ExitCode
from cli.server import Server


class OwnTools:
    """Makes tools that agents under test need, and deletes those that it has made.

    A tool of the same name that says something else belongs to other agents: it is not changed,
    unless `update` allows that.
    """

    def __init__(self, server: Server, *, update: bool = False) -> None:
        self.server = server
        self.update = update
        self._there: dict[str, Mapping[str, Any]] = {}  # what was sent, by name
        self._made: list[str] = []
        self._lock = Lock()

    def provide(self, name: str, request: Mapping[str, Any]) -> None:
        """Have the server have this tool. Raises CommandError where it has another of the name."""
        with self._lock:
            if name in self._there:
                if self._there[name] != request:
                    raise CommandError(f"Two agents have different tools called {name}")
                return
            known = self.server.get("/v1/tools/", name=name)
            if not known:
                made = self.server.put("/v1/tools/", dict(request))
                self._made.append(made["id"])
                if made["name"] != name:
                    raise CommandError(f"The source of the tool {name} makes {made['name']}")
            elif known[0]["source_code"] != request["source_code"]:
                self._change(name, request)
            self._there[name] = request

    def _change(self, name: str, request: Mapping[str, Any]) -> None:
        if not self.update:
            raise CommandError(
                f"The server has another tool called {name}: `heeler apply` the agent first, allow "
                "the tests to change it by --update-tools, or test with --start",
                ExitCode.REFUSED,
            )
        self.server.put("/v1/tools/", dict(request))

    def delete(self) -> None:
        """Delete the tools that were made. Safe to repeat."""
        with self._lock:
            while self._made:
                self.server.delete(f"/v1/tools/{self._made.pop()}")
            self._there.clear()
