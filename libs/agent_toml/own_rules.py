"""The security rules of an operator, as a TOML file: rules of their own, and other severities for
those that are built in."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from typing import Annotated

from pydantic import Field, ValidationError

from libs.agent_toml.security_rules import BUILT_IN, RuleSet, RuleSeverity, SecurityRule
from libs.agent_toml.tables import ENVIRONMENTS, Environment, Table
from libs.agent_toml.text_detectors import texts_that_match

RULES_MAX = 200
PATTERN_CHARS_MAX = 500


class WrongRules(Exception):
    """The file of rules cannot be used; the text says why."""


class Severities(Table):
    """The severity of a problem, by environment."""

    development: RuleSeverity = "error"
    staging: RuleSeverity = "error"
    production: RuleSeverity = "error"


class OwnRule(Severities):
    """A rule of an operator: texts that fit its pattern break it."""

    id: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9-]{2,31}$")]
    title: Annotated[str, Field(min_length=1, max_length=200)]
    pattern: Annotated[str, Field(min_length=1, max_length=PATTERN_CHARS_MAX)]
    fields: list[str] = Field(default_factory=list)
    reason: Annotated[str, Field(min_length=1, max_length=1_000)]
    fix: Annotated[str, Field(max_length=1_000)] = ""


class OwnRules(Table):
    """The whole file."""

    environment: Environment | None = None
    severity: dict[str, Severities] = Field(default_factory=dict)
    rule: Annotated[list[OwnRule], Field(max_length=RULES_MAX)] = Field(default_factory=list)


def rules_from(text: str) -> RuleSet:
    """The rules that hold with such a file. Raises WrongRules."""
    try:
        said = OwnRules.model_validate(tomllib.loads(text))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise WrongRules(f"{place}: {first['msg']}") from None
    except ValueError as error:  # a number of thousands of digits is one as well
        raise WrongRules(f"it is no TOML: {error}") from None
    built_in = {rule.id: rule for rule in BUILT_IN}
    for rule_id, severities in sorted(said.severity.items()):
        if rule_id not in built_in:
            raise WrongRules(
                f"severity.{rule_id}: there is no such rule: use SEC001 to {BUILT_IN[-1].id}"
            )
        built_in[rule_id] = _with_severities(built_in[rule_id], severities)
    return RuleSet([*built_in.values(), *map(_rule, said.rule)], said.environment)


def _with_severities(rule: SecurityRule, severities: Severities) -> SecurityRule:
    given = severities.model_dump(exclude_unset=True)
    return replace(rule, severities={**rule.severities, **given})


def _rule(rule: OwnRule) -> SecurityRule:
    if rule.id in {each.id for each in BUILT_IN}:
        raise WrongRules(f"{rule.id} is a rule that is built in: use [severity.{rule.id}]")
    try:
        pattern = re.compile(rule.pattern)
    except re.error as error:
        raise WrongRules(f"{rule.id}: the pattern is wrong: {error}") from None
    return SecurityRule(
        rule.id,
        rule.title,
        texts_that_match(pattern, tuple(rule.fields), rule.title),
        rule.model_dump(include={*ENVIRONMENTS}),
        rule.reason,
        rule.fix or "Take it out.",
    )
