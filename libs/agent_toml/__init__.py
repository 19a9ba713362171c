"""Agents as TOML files: their form, what is wrong with one, and how one is written."""

from libs.agent_toml.checked_file import CheckedFile, read, read_file
from libs.agent_toml.definition import AgentDefinition
from libs.agent_toml.own_rules import WrongRules, rules_from
from libs.agent_toml.problems import Problem, to_json, to_text
from libs.agent_toml.requests import (
    block_request,
    mcp_server_request,
    permissions_request,
    schedule_request,
    to_create_request,
    to_update_request,
    tool_request,
    variables_of,
)
from libs.agent_toml.security_rules import DEFAULT_RULES, RuleSet
from libs.agent_toml.server_checks import Catalogue
from libs.agent_toml.server_documents import NotWritable, from_server
from libs.agent_toml.sibling_files import ReadSibling
from libs.agent_toml.tables import MissingVariable
from libs.agent_toml.tool_checks import tool_name
from libs.agent_toml.writing import write

__all__ = [
    "DEFAULT_RULES",
    "AgentDefinition",
    "Catalogue",
    "CheckedFile",
    "MissingVariable",
    "NotWritable",
    "Problem",
    "ReadSibling",
    "RuleSet",
    "WrongRules",
    "block_request",
    "from_server",
    "mcp_server_request",
    "permissions_request",
    "read",
    "read_file",
    "rules_from",
    "schedule_request",
    "to_create_request",
    "to_json",
    "to_text",
    "to_update_request",
    "tool_name",
    "tool_request",
    "variables_of",
    "write",
]
