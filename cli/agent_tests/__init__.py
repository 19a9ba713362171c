"""Tests of agents: scenarios, what they expect, and how they run against a server."""
