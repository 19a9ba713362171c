"""Look for what the security rules are about, and report it with the reason."""

from __future__ import annotations

from libs.agent_toml.definition import AgentDefinition
from libs.agent_toml.reporting import Reporter
from libs.agent_toml.security_rules import RuleSet
from libs.agent_toml.security_subject import Subject
from libs.agent_toml.tables import Environment
from libs.agent_toml.toml_positions import Path


def check_security(definition: AgentDefinition, reporter: Reporter, rules: RuleSet) -> None:
    """Report what breaks a rule of the environment that the file, or the set of rules, says."""
    environment: Environment = rules.environment or definition.environment
    subject = Subject(definition)
    for rule in rules.rules:
        severity = rule.severities[environment]
        if severity == "off":
            continue
        report = reporter.error if severity == "error" else reporter.warn
        for finding in rule.detector(subject):
            words = f"{finding.words}: {rule.reason}"
            report(_written_path(definition, finding.path), rule.id, words, fix=rule.fix)


def _written_path(definition: AgentDefinition, path: Path) -> Path:
    """Where the file says something that may have been read from a file beside it."""
    match path:
        case ("system_prompt", *_) if definition.system_prompt_file is not None:
            return ("system_prompt_file",)
        case ("memory", int(index), "value", *_) if definition.memory[index].value_file is not None:
            return ("memory", index, "value_file")
        case ("tool", int(index), "source", *_) if definition.tool[index].file is not None:
            return ("tool", index, "file")
    return path
