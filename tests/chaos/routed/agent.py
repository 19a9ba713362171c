"""The agent service behind wires."""

from tests.chaos.routed import run

run("agent")
