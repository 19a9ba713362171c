"""Aggregates that the api owns, a module for each: what events happen to them, and which commands
are refused."""
