"""Agents that other tools keep as YAML, written as TOML: `heeler migrate yaml`."""
