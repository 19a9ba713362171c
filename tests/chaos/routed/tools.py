"""The tools service behind wires."""

from tests.chaos.routed import run

run("tools")
