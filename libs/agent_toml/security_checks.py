"""Look for what the security rules are about, and report it with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from libs.agent_toml import limit_detectors, text_detectors, tool_detectors
from libs.agent_toml.definition import AgentDefinition
from libs.agent_toml.reporting import Reporter, name_of
from libs.agent_toml.security_rules import RuleSet, SecurityRule
from libs.agent_toml.security_subject import Finding, Subject
from libs.agent_toml.tables import Environment
from libs.agent_toml.toml_positions import Path
from libs.agent_toml.tool_detectors import detector_of


def check_security(definition: AgentDefinition, reporter: Reporter, rules: RuleSet) -> None:
    """Report what breaks a rule of the environment that the file, or the set of rules, says."""
    environment: Environment = rules.environment or definition.environment
    subject = Subject(definition)
    for rule in rules.rules:
        severity = rule.severities[environment]
        if severity == "off":
            continue
        report = reporter.error if severity == "error" else reporter.warn
        for finding in _findings(rule, subject):
            words = f"{finding.words}: {rule.reason}"
            report(_written_path(definition, finding.path), rule.id, words, fix=rule.fix)


def _findings(rule: SecurityRule, subject: Subject) -> Iterator[Finding]:
    if rule.own is None:
        yield from DETECTORS[rule.detector](subject)
        return
    for path, text in subject.texts:
        name = name_of(path)
        if rule.own.fields and not name.startswith(rule.own.fields):
            continue
        if rule.own.pattern.search(text):
            yield Finding(path, f"{name}: {rule.title}")


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


DETECTORS: Mapping[str, Callable[[Subject], Iterator[Finding]]] = {
    "secrets_in_texts": text_detectors.secrets_in_texts,
    "plain_values": text_detectors.plain_values,
    "undeclared_needs": tool_detectors.undeclared_needs,
    "needs_that_are_withheld": tool_detectors.needs_that_are_withheld,
    "unapproved_programs": tool_detectors.unapproved_programs,
    "sources_that_start_programs": detector_of(
        "programs", "it starts programs", unless_approved=True
    ),
    "sources_that_evaluate": detector_of("evaluation", "it runs text as code"),
    "sources_that_hide": detector_of("hiding", "it runs what it hides"),
    "sources_that_read_secrets": tool_detectors.sources_that_read_secrets,
    "sources_with_sockets": detector_of("sockets", "it opens sockets", unless_approved=True),
    "sources_that_unpickle": detector_of("unpickling", "it loads objects from bytes"),
    "mcp_shells": tool_detectors.mcp_shells,
    "mcp_fetched_programs": tool_detectors.mcp_fetched_programs,
    "plain_http": text_detectors.plain_http,
    "metadata_addresses": text_detectors.metadata_addresses,
    "injections": text_detectors.injections,
    "invisible_characters": text_detectors.invisible_characters,
    "sampling": tool_detectors.sampling,
    "unpinned_packages": tool_detectors.unpinned_packages,
    "frequent_schedules": limit_detectors.frequent_schedules,
    "hidden_schedules": limit_detectors.hidden_schedules,
    "output_without_room": limit_detectors.output_without_room,
    "many_steps": limit_detectors.many_steps,
}
