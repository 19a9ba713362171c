"""The groups service behind wires."""

from tests.chaos.routed import run

run("groups")
