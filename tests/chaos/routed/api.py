"""The api service behind wires."""

from tests.chaos.routed import run

run("api")
