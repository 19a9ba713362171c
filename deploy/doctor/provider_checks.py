"""The providers of models: whether each can be reached, lets us in, and lists models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from deploy.doctor.examined import Examined
from deploy.doctor.findings import Finding, ok, problem, skip, warning
from deploy.doctor.provider_requests import ANTHROPIC, Answer, ask
from libs.contracts.environment_parsing import WrongSetting
from libs.egress.provider_endpoints import Endpoint
from services.agent.settings import ProviderSettings

CHAT, MESSAGES = "/chat/completions", "/v1/messages"
LISTED = {"openai": "/models", "anthropic": "/v1/models", "ollama": "/models"}
ASKED = {"openai": CHAT, "anthropic": MESSAGES, "ollama": CHAT}
NO_LIST = (404, 405, 501)
BASES = {
    "openai": ("OPENAI_API_BASE", "OPENAI_BASE_URL"),
    "anthropic": ("ANTHROPIC_BASE_URL",),
    "ollama": ("OLLAMA_BASE_URL",),
}
KEYS = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
REFUSED, NOT_THERE = (401, 403), (301, 302, 303, 307, 308, 404, 405)
TRIAL_TOKENS_MAX = 256
TRIAL_TOOL = "tell_time"


@dataclass(frozen=True, slots=True)
class Provider:
    """One that is configured, and the variables that say so."""

    name: str
    endpoint: Endpoint
    base_variable: str

    @property
    def key_variable(self) -> str:
        """The variable of its key; empty where it wants none."""
        return KEYS.get(self.name, "")

    def ask(self, path: str, *, base: str = "", body: Mapping[str, Any] | None = None) -> Answer:
        """Send one request; returns what the provider answers, or why it does not."""
        return ask(self.endpoint, path, kind=self.name, base=base, body=body)


def providers(examined: Examined) -> list[Provider]:
    """Those that the environment configures. Raises WrongSetting."""
    settings = ProviderSettings.from_environment(examined.environment)
    found = []
    for name, bases in BASES.items():
        endpoint: Endpoint | None = getattr(settings, name)
        if endpoint:
            set_base = next((each for each in bases if examined.environment.get(each)), "")
            found.append(Provider(name, endpoint, set_base or bases[0]))
    return found


def answers(examined: Examined) -> list[tuple[Provider, Answer]]:
    """The answers of providers to a request for their models; each is asked once."""

    def ask_all() -> list[tuple[Provider, Answer]]:
        try:
            known = providers(examined)
        except WrongSetting:  # `settings` tells of it
            return []
        with ThreadPoolExecutor(max_workers=len(BASES)) as together:
            asked = together.map(lambda provider: provider.ask(LISTED[provider.name]), known)
            return list(zip(known, asked, strict=True))

    return examined.once("providers", ask_all)


def dates(examined: Examined) -> Iterator[tuple[str, Answer]]:
    """The providers that sent a Date, with what they answered."""
    for provider, answer in answers(examined):
        if answer.date:
            yield provider.name, answer


def check_providers(examined: Examined) -> list[Finding]:
    """Each provider that is configured."""
    found = [_judge(provider, answer) for provider, answer in answers(examined)]
    return found or [ok("none is set: agents can use the model of the demo alone")]


def _judge(provider: Provider, answer: Answer) -> Finding:
    where = f"{provider.name} at {provider.endpoint.base_url}"
    change_base = f"export {provider.base_variable}=<its address>"
    if answer.error:
        return _unreachable(provider, answer, where)
    if answer.status in REFUSED:
        if not provider.key_variable:
            return problem(f"{where} asks for a key ({answer.status})", change_base)
        return problem(
            f"{where} does not accept the key in {provider.key_variable} ({answer.status})",
            f"export {provider.key_variable}=<a key of this provider>",
        )
    if answer.status in (*NOT_THERE, *NO_LIST) or (
        answer.status == 200 and models_of(answer) is None
    ):
        return _wrong_path(provider, answer, where)
    if answer.status != 200:
        return warning(
            f"{where} answers with {answer.status}: it may be overloaded",
            "sleep 60 # then ask again",
        )
    return ok(f"{where} lists {len(models_of(answer) or [])} models")


def _unreachable(provider: Provider, answer: Answer, where: str) -> Finding:
    address = urlsplit(provider.endpoint.base_url)
    if answer.is_untrusted:
        plain = address._replace(scheme="http").geturl()
        if "WRONG_VERSION" in str(answer.error) and not _has_login(provider):
            return problem(f"{where}: it speaks no TLS", f"export {provider.base_variable}={plain}")
        return problem(f"{where}: {answer.reason}", "export SSL_CERT_FILE=<file of its authority>")
    return problem(
        f"{where}: {answer.reason}",
        f"export {provider.base_variable}=<address of a server that runs>",
    )


def _wrong_path(provider: Provider, answer: Answer, where: str) -> Finding:
    """Tells the base that works, where one that is much like it does."""
    said = f"{answer.status}" if answer.status != 200 else "no list of models"
    if answer.status in NO_LIST and _takes_questions(provider):
        return ok(f"{where} has no list of models ({said}): name them as {provider.name}/<model>")
    text = f"{where} has no {LISTED[provider.name]} ({said}): the address is not right"
    for base in _alike(provider.endpoint.base_url):
        other = provider.ask(LISTED[provider.name], base=base)
        if other.status in REFUSED or (other.status == 200 and models_of(other) is not None):
            shown = "<the same, with its path>" if _has_login(provider) else base
            return problem(f"{text}, {base} is", f"export {provider.base_variable}={shown}")
    return problem(text, f"export {provider.base_variable}=<its address, with its path>")


def _takes_questions(provider: Provider) -> bool:
    """Whether the address is right although it has no list: a question that asks nothing is
    refused for what it lacks."""
    answer = provider.ask(ASKED[provider.name], body={})
    return not answer.error and answer.status not in (*NOT_THERE, *NO_LIST)


def _alike(base: str) -> list[str]:
    """Other addresses that may have been meant."""
    address = urlsplit(base)
    root = address._replace(path="").geturl()
    path = address.path.rstrip("/")
    for end in ("/chat/completions", "/completions", "/models", "/messages"):
        path = path.removesuffix(end)
    found = [f"{root}{path}/v1", f"{root}{path}", f"{root}/v1", f"{root}/api/v1"]
    return [each for each in dict.fromkeys(found) if each != base]


def _has_login(provider: Provider) -> bool:
    """Whether the address has something that may not be shown."""
    return bool(provider.endpoint.query or provider.endpoint.headers.get("Authorization"))


def models_of(answer: Answer) -> list[dict[str, Any]] | None:
    """The models of an answer; None where it has no list of models."""
    data = answer.document.get("data") if isinstance(answer.document, dict) else None
    if not isinstance(data, list):
        return None
    return [entry for entry in data if isinstance(entry, dict) and entry.get("id")]


def check_tools(examined: Examined) -> list[Finding]:
    """Whether models take tools, which agents need: as the lists say, and where requests may cost
    something as a request says."""
    found: list[Finding] = []
    for provider, answer in answers(examined):
        models = models_of(answer) or []
        said = [
            (entry["id"], taken) for entry in models if (taken := takes_tools(entry)) is not None
        ]
        without = [name for name, taken in said if not taken]
        if said and len(without) == len(said):
            text = f"{provider.name}: no model in its list takes tools, which agents need"
            fix = f"export {provider.base_variable}=<address of a server whose models do>"
            found.append(warning(text, fix))
        elif said:
            with_tools = len(said) - len(without)
            found.append(ok(f"{provider.name}: {with_tools} of {len(said)} take tools"))
        if examined.deep and models:
            found.append(_try_tools(provider, models))
    return found or [skip("no list of models says it; --deep asks a model, which costs a little")]


def takes_tools(entry: Mapping[str, Any]) -> bool | None:
    """Whether the entry of a list says that the model takes tools; None where it does not say."""
    for field in ("supported_parameters", "capabilities", "supported_features"):
        value = entry.get(field)
        if isinstance(value, list):
            return bool(
                {"tools", "tool_use", "function_calling", "tool_calling"} & {*map(str, value)}
            )
        if isinstance(value, dict) and "function_calling" in value:
            return bool(value["function_calling"])
    return None


def _try_tools(provider: Provider, models: list[dict[str, Any]]) -> Finding:
    """Ask the first model for a tool call."""
    name = str(models[0]["id"])
    if provider.name == ANTHROPIC:
        answer = provider.ask(MESSAGES, body=_anthropic_trial(name))
        called = "tool_use" in str(answer.document)
    else:
        answer = provider.ask(CHAT, body=_openai_trial(name))
        called = "tool_calls" in str(answer.document) and TRIAL_TOOL in str(answer.document)
    if answer.status == 200 and called:
        return ok(f"{provider.name}/{name} calls a tool when it is asked to")
    said = f"answers {answer.status}" if answer.status else answer.reason
    return warning(
        f"{provider.name}/{name} calls no tool when it is asked to"
        f" ({'it answers in words' if answer.status == 200 else said})",
        f"export {provider.base_variable}=<address of a server whose models take tools>",
    )


QUESTION = [{"role": "user", "content": f"Call the tool {TRIAL_TOOL} now."}]
ARGUMENTS = {"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]}


def _openai_trial(model: str) -> dict[str, Any]:
    function = {"name": TRIAL_TOOL, "description": "Tells the time.", "parameters": ARGUMENTS}
    tools = [{"type": "function", "function": function}]
    return {"model": model, "messages": QUESTION, "tools": tools}


def _anthropic_trial(model: str) -> dict[str, Any]:
    tools = [{"name": TRIAL_TOOL, "description": "Tells the time.", "input_schema": ARGUMENTS}]
    limits = {"max_tokens": TRIAL_TOKENS_MAX, "tool_choice": {"type": "any"}}
    return {"model": model, "messages": QUESTION, "tools": tools, **limits}
