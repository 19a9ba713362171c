"""Malicious files are rejected with a reason, and honest ones pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.agent_file_checks import check_file
from libs.agent_toml import DEFAULT_RULES, WrongRules, read, rules_from
from libs.agent_toml.security_rules import BUILT_IN, RuleSet

HERE = Path(__file__).parent
MALICIOUS = sorted((HERE / "malicious").glob("*.toml"))
HONEST = sorted((HERE / "honest").glob("*.toml"))
AGENT = 'name = "ada"\nsystem_prompt = "You talk about globex."\nmodel = "openai/gpt-4.1"\n'


def test_there_are_enough_of_both() -> None:
    assert len(MALICIOUS) >= 15
    assert len(HONEST) >= 10


@pytest.mark.parametrize("path", MALICIOUS, ids=lambda path: path.stem)
def test_a_malicious_file_is_rejected_with_its_reason(path: Path) -> None:
    wanted = path.read_text().splitlines()[0].removeprefix("# ")
    checked = check_file(path)
    assert checked.definition is None
    found = {problem.code: problem for problem in checked.errors}
    assert wanted in found, found.keys()
    assert found[wanted].line > 1
    assert len(found[wanted].message) > 20


@pytest.mark.parametrize("path", HONEST, ids=lambda path: path.stem)
def test_an_honest_file_passes_without_a_warning(path: Path) -> None:
    checked = check_file(path)
    assert checked.problems == ()
    assert checked.definition is not None


@pytest.mark.parametrize("rule", BUILT_IN, ids=lambda rule: rule.id)
def test_each_rule_has_a_detector_a_reason_and_a_fix(rule: object) -> None:
    assert rule in BUILT_IN
    assert len({each.detector for each in BUILT_IN}) == len(BUILT_IN)
    assert all(each.reason and each.fix and each.title for each in BUILT_IN)
    assert len({each.id for each in BUILT_IN}) == len(BUILT_IN)


def test_each_rule_that_can_reject_is_tried_by_a_file_or_a_test() -> None:
    tried = {path.read_text().splitlines()[0].removeprefix("# ") for path in MALICIOUS}
    elsewhere = {"SEC004", "SEC010", "SEC011", "SEC013", "SEC018", "SEC019", "SEC020", "SEC022"}
    assert {rule.id for rule in BUILT_IN} - tried - elsewhere == {"SEC023"}


OTHERS = {
    "SEC004": 'tools = ["run_code"]\n[permissions]\ncapabilities = ["memory"]\n',
    "SEC010": "[[tool]]\nsource = '''\nimport socket\ndef f():\n    socket.socket()\n'''\n",
    "SEC011": "[[tool]]\nsource = '''\nimport pickle\ndef f(x):\n    pickle.loads(x)\n'''\n",
    "SEC013": '[[mcp_servers]]\nname = "m"\ncommand = "npx"\nargs = ["some-server"]\n',
    "SEC018": '[[mcp_servers]]\nname = "m"\nurl = "https://a.test/mcp"\nsampling = true\n',
    "SEC019": "[[tool]]\npackages = ['httpx']\nsource = '''\ndef f():\n    pass\n'''\n",
    "SEC020": '[[schedules]]\nname = "s"\nevery = "1m"\nmessage = "m"\n',
    "SEC022": "context_window = 1000\n[model_settings]\nmax_output_tokens = 1000\n",
    "SEC023": '[[schedules]]\nname = "s"\ncron = "@daily"\nmessage = "m"\nmax_steps = 900\n',
}


@pytest.mark.parametrize("code", OTHERS)
def test_a_rule_finds_what_it_is_about(code: str) -> None:
    rules = RuleSet(DEFAULT_RULES.rules, "production")
    assert code in {problem.code for problem in read(AGENT + OTHERS[code], rules=rules).problems}


def test_the_environment_says_which_rules_hold() -> None:
    text = AGENT + 'tools = ["shell"]\n'
    assert read(text).errors == ()
    assert {p.code for p in read('environment = "staging"\n' + text).warnings} >= {"SEC003"}
    assert {p.code for p in read('environment = "production"\n' + text).errors} == {
        *("SEC003", "SEC005")
    }
    assert read(text, rules=RuleSet(DEFAULT_RULES.rules, "production")).errors


def test_an_operator_has_rules_of_their_own_and_other_severities() -> None:
    rules = rules_from(
        'environment = "production"\n[severity.SEC014]\nproduction = "off"\n'
        '[[rule]]\nid = "ACME-1"\ntitle = "Names a competitor"\npattern = "(?i)\\\\bglobex\\\\b"\n'
        'fields = ["system_prompt"]\nreason = "Agents do not talk about them."\n'
    )
    server = '[permissions]\ncapabilities = ["mcp"]\n[[mcp_servers]]\nname = "m"\n'
    server += 'url = "http://a.test/mcp"\n'
    checked = read(AGENT + server, rules=rules)
    assert [problem.code for problem in checked.errors] == ["ACME-1"]
    assert "Agents do not talk about them." in checked.errors[0].message


@pytest.mark.parametrize(
    "text", ["x = [", "[severity.SEC999]\n", "[[rule]]\nid = 'A'\n", "nonsense = 1\n"]
)
def test_a_file_of_rules_that_is_wrong_is_refused(text: str) -> None:
    with pytest.raises(WrongRules):
        rules_from(text)
