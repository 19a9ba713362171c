"""The patterns that `tests.slow_patterns` would refuse, each with why it is linear all the same, or
on which short texts alone it is used."""

from __future__ import annotations

from collections.abc import Mapping

OWN_TEXT = "it reads texts that this repository or its operator wrote"
COMMAND = "it reads what its user wrote, in a program of that user"
ESCAPED = "it is built of escaped texts, between which nothing repeats"

REVIEWED: Mapping[str, str] = {
    "cli/config.py::without_logins": COMMAND,
    "cli/man.py::_text": OWN_TEXT,
    "cli/names.py::UUID": "all of its repeats have one length",
    "deploy/doctor/examined.py::variables_of": ESCAPED,
    "deploy/doctor/settings_checks.py::_command_in": OWN_TEXT,
    "deploy/doctor/settings_checks.py::_edit": OWN_TEXT,
    "deploy/story.py::main": OWN_TEXT,
    "libs/agent_toml/own_rules.py::_rule": "an operator's own rules, in a program of that operator",
    "libs/agent_toml/secret_patterns.py::_kind": "`re` gets it from the table in that module",
    "libs/agent_toml/source_dangers.py::HINTS": ESCAPED,
    "libs/agent_toml/text_detectors.py::DENIAL": "it reads the 100 characters before a finding",
    "libs/agent_toml/toml_positions.py::_BASIC": "it is matched, never searched",
    "libs/agent_toml/toml_positions.py::_BLANK": "nothing stands behind it that could fail",
    "libs/agent_toml/toml_positions.py::_BASIC_LINES": "it is matched, never searched",
    "libs/agent_toml/toml_positions.py::_LITERAL_LINES": "it is matched, never searched",
    "libs/bus/toml_lines.py::ENTRY": OWN_TEXT,
    "libs/bus/toml_lines.py::TABLE": OWN_TEXT,
    "libs/contracts/environment_parsing.py::address": OWN_TEXT,
    "libs/contracts/letta/error_bodies.py::check_id": "an id, of as many characters as all have",
    "libs/contracts/shortened_text.py::EARLIER_NOTE": "its numbers have 15 digits at most",
    "libs/eventstore/as_of_reads.py::PUBLISHED_VIEW": OWN_TEXT,
    "libs/eventstore/as_of_schema.py::definition": OWN_TEXT,
    "libs/eventstore/as_of_schema.py::made_by": OWN_TEXT,
    "libs/telemetry/sql_span_names.py::DOES": OWN_TEXT,
    "services/agent/adapters/lenient_date_parsing.py::_ZONE": "a time has 100 characters at most",
    "services/agent/adapters/models/rule_provider.py::CHUNK": (
        "only the last white space of a text has nothing behind it, and it is taken by then"
    ),
    "services/agent/adapters/models/provider_error_words.py::QUOTED": (
        "no quote that is escaped begins one, so each character is read from two quotes at most"
    ),
    "services/agent/adapters/models/provider_error_words.py::WINDOWS": (
        "its repeats have bounds: N stands for TOKENS, of 22 characters at most"
    ),
    "services/agent/adapters/models/provider_error_words.py::names": ESCAPED,
    "services/api/engine/import_attachments.py::is_project_id": "an id has a fixed length",
    "services/api/http/direct_handler_calls.py::PARAMETER": "it reads the paths of the routes",
    "services/api/http/error_responses.py::path_pattern": "it is made of the paths of the routes",
}
