"""What operators see of a real Heeler: one message as one trace, and what Prometheus counts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import nats
import pytest

from libs.contracts.service_registry import names
from libs.telemetry import metrics
from tests.collector import Collector, Seen, drawn
from tests.e2e.asking import EMBEDDING, MODEL, SECONDS_MAX, says, unique
from tests.ports import free_port
from tests.scripted_model import ScriptedModelProcess
from tests.servers import HeelerInstance, wait_until

PAGE = Path(__file__).parents[2] / "docs" / "telemetry.md"
SEEN_SECONDS_MAX = 60.0
ANSWER_SECONDS_MAX = 10.0

# What one message with a call of `memory_insert` looks like: of each span its name and its kind,
# and what is below it. Statements that only read are left out.
TREE = """
POST /v1/agents/{agent_id}/messages [heeler-api server]
  send agent.run.start [heeler-api producer]
    process agent.run.start [heeler-agent consumer]
      commit agent run.accepted, run.started, message.appended [heeler-agent client]
      invoke_agent Ada [heeler-agent internal]
        chat gpt-4o-mini [heeler-agent client]
        commit agent model.replied, message.appended, tool_call.started [heeler-agent client]
        execute_tool memory_insert [heeler-agent internal]
          send memory.block.edit [heeler-agent producer]
            process memory.block.edit [heeler-memory consumer]
              commit memory block.changed [heeler-memory client]
        commit agent tool_call.finished, message.appended [heeler-agent client]
        chat gpt-4o-mini [heeler-agent client]
        commit agent system_prompt.rebuilt, model.replied, message.appended, run.completed \
[heeler-agent client]
"""

NAMES = [line.split(" [")[0].strip() for line in TREE.strip().splitlines()]


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as running:
        yield running


@pytest.fixture(scope="module")
async def model() -> AsyncIterator[ScriptedModelProcess]:
    async with ScriptedModelProcess() as process:
        yield process


@pytest.fixture(scope="module")
def heeler(collector: Collector, model: ScriptedModelProcess) -> Iterator[HeelerInstance]:
    env = {
        "HEELER_PROCESSES": "each",
        "OPENAI_API_BASE": model.base_url,
        "OPENAI_API_KEY": "any",
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
        "OTEL_BSP_SCHEDULE_DELAY": "200",
    }
    with HeelerInstance(env=env) as instance:
        yield instance


@pytest.fixture(scope="module")
def http(heeler: HeelerInstance) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=heeler.base_url, timeout=SECONDS_MAX) as client:
        yield client


@pytest.fixture
def agent(http: httpx.Client) -> dict[str, Any]:
    body = {
        "name": "Ada",
        "model": MODEL,
        "embedding": EMBEDDING,
        "memory_blocks": [{"label": "human", "value": ""}],
    }
    made: dict[str, Any] = http.post("/v1/agents/", json=body).raise_for_status().json()
    return made


@pytest.fixture
def trace_id() -> str:
    return unique("trace").removeprefix("trace-").rjust(32, "a")


def ask(http: httpx.Client, agent: dict[str, Any], text: str, trace_id: str) -> dict[str, Any]:
    """Send a message as a client does that traces itself."""
    answer = http.post(
        f"/v1/agents/{agent['id']}/messages",
        json={"messages": says(text)},
        headers={"traceparent": f"00-{trace_id}-b7ad6b7169203331-01"},
    )
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def insert(text: str) -> str:
    """What makes the scripted model remember something."""
    return f"CALL:memory_insert:{json.dumps({'label': 'human', 'new_string': text})} SAY:noted"


def whole(collector: Collector, trace_id: str, *names: str) -> list[Seen]:
    """The spans of a trace, once those with these names are there."""

    def there() -> bool:
        return {*names} <= {span.name for span in collector.trace(trace_id)}

    wait_until(f"{names} are exported", there, SEEN_SECONDS_MAX)
    return collector.trace(trace_id)


def test_one_message_with_a_tool_call_is_one_tree_across_all_services(
    collector: Collector, http: httpx.Client, agent: dict[str, Any], trace_id: str
) -> None:
    ask(http, agent, insert("Likes tea"), trace_id)
    everything = whole(collector, trace_id, *NAMES)
    parents = {span.span_id for span in everything}
    roots = [span for span in everything if span.parent_id not in parents]
    assert [span.parent_id for span in roots] == ["b7ad6b7169203331"], "one tree, the client's"
    writing = [span for span in everything if not span.name.startswith(("load ", "SELECT "))]
    assert drawn(writing).strip() == TREE.strip()
    reads = {span.name for span in everything} - {span.name for span in writing}
    assert reads == {"load agent history", "SELECT memory.block_view"}, "what is not cached"
    assert {span.attributes["db.system.name"] for span in everything if span.name in reads} == {
        "postgresql"
    }
    for span in everything:
        assert not span.failed, span
        assert "db.system.name" in span.attributes or span.kind != "client" or "chat" in span.name


def test_spans_speak_the_language_of_the_conventions(
    collector: Collector, http: httpx.Client, agent: dict[str, Any], trace_id: str
) -> None:
    answer = ask(http, agent, insert("Likes tea"), trace_id)
    spans = {span.name: span.attributes for span in reversed(whole(collector, trace_id, *NAMES))}
    run_id = answer["messages"][0]["run_id"]
    call_id = answer["messages"][0]["tool_call"]["tool_call_id"]
    run = spans["invoke_agent Ada"]
    below = {
        "gen_ai.agent.id": agent["id"],
        "gen_ai.agent.name": "Ada",
        "gen_ai.conversation.id": run["gen_ai.conversation.id"],
        "session.id": run["gen_ai.conversation.id"],
        "user.id": "user-00000000-0000-4000-8000-000000000000",
        "heeler.run.id": run_id,
    }
    assert run["gen_ai.conversation.id"].startswith("conv-")
    assert run == below | {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.usage.input_tokens": answer["usage"]["prompt_tokens"],
        "gen_ai.usage.output_tokens": answer["usage"]["completion_tokens"],
        "heeler.run.resumed": False,
        "heeler.run.stop_reason": "end_turn",
    }
    chat = spans["chat gpt-4o-mini"]
    assert chat["gen_ai.usage.input_tokens"] > 0
    assert chat["gen_ai.usage.output_tokens"] > 0
    assert {**chat, "gen_ai.usage.input_tokens": 1, "gen_ai.usage.output_tokens": 1} == below | {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.request.temperature": 1.0,
        "gen_ai.request.max_tokens": 16384,
        "gen_ai.response.finish_reasons": ["tool_calls"],
        "gen_ai.usage.input_tokens": 1,
        "gen_ai.usage.output_tokens": 1,
        "gen_ai.usage.cache_read.input_tokens": 0,
        "gen_ai.usage.cache_creation.input_tokens": 0,
        "gen_ai.usage.reasoning.output_tokens": 0,
    }
    tool = dict(spans["execute_tool memory_insert"])
    assert tool.pop("heeler.step.id").startswith("step-")
    assert tool == below | {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "memory_insert",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": call_id,
    }
    memory = spans["process memory.block.edit"]
    assert memory["gen_ai.operation.name"] == "update_memory"
    assert memory["gen_ai.memory.record.id"].startswith("block-")
    assert memory["gen_ai.memory.record.count"] == 1
    assert memory["gen_ai.tool.call.id"] == call_id
    request = spans["POST /v1/agents/{agent_id}/messages"]
    assert request["http.response.status_code"] == 200
    assert "Likes tea" not in str(spans), "what people say stays out, unless asked for"


def test_a_run_that_is_taken_over_goes_on_in_its_trace(
    heeler: HeelerInstance,
    collector: Collector,
    http: httpx.Client,
    agent: dict[str, Any],
    trace_id: str,
) -> None:
    agent_process = heeler.pid("agent")
    text = unique("taken-over")
    path = f"/v1/agents/{agent['id']}/messages/stream"
    with http.stream(
        "POST",
        path,
        json={"messages": says(f"SLOW:3000 SAY:{text}")},
        headers={"traceparent": f"00-{trace_id}-b7ad6b7169203331-01"},
    ) as response:
        for line in response.iter_lines():
            if "ping" in line:
                heeler.kill9("agent")
        assert response.status_code == 200
    heeler.wait_restarted("agent", agent_process)
    spans = whole(collector, trace_id, "invoke_agent")
    [run] = [span for span in spans if span.name.startswith("invoke_agent")]
    assert run.attributes["heeler.run.resumed"] is True
    assert run.attributes["heeler.run.stop_reason"] == "end_turn"
    assert any(span.parent_id == run.span_id and "chat" in span.name for span in spans)
    heeler.wait_healthy()


def test_a_run_that_fails_is_a_failed_span(
    collector: Collector, http: httpx.Client, agent: dict[str, Any], trace_id: str
) -> None:
    answer = http.post(
        f"/v1/agents/{agent['id']}/messages",
        json={"messages": says("FAIL:400")},
        headers={"traceparent": f"00-{trace_id}-b7ad6b7169203331-01"},
    )
    assert answer.status_code >= 400, answer.text
    spans = whole(collector, trace_id, "invoke_agent Ada")
    [run] = [span for span in spans if span.name == "invoke_agent Ada"]
    assert (run.failed, run.attributes["error.type"]) == (True, "llm_bad_request")
    assert run.attributes["heeler.run.stop_reason"] == "llm_api_error"


def scraped(http: httpx.Client) -> str:
    """What `/metrics` says."""
    answer = http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return answer.text


def heard(http: httpx.Client, service: str) -> int:
    """How many processes of a service were heard."""
    lines = [line for line in scraped(http).splitlines() if line.startswith("heeler_service_info{")]
    return sum(f'service="{service}"' in line for line in lines)


def all_told(http: httpx.Client) -> bool:
    """Whether every service was heard."""
    return all(heard(http, service) for service in names())


def test_one_address_tells_what_all_processes_count(
    heeler: HeelerInstance, http: httpx.Client, agent: dict[str, Any], trace_id: str
) -> None:
    ask(http, agent, insert("Likes tea"), trace_id)
    wait_until("every process is heard", lambda: all_told(http), SEEN_SECONDS_MAX)
    heeler.spawn_service("memory")

    wait_until(
        "the second memory process is heard", lambda: heard(http, "memory") == 2, SEEN_SECONDS_MAX
    )
    heeler.stop_replicas()
    text = scraped(http)
    for family in metrics.REGISTRY.collect():
        assert len(re.findall(rf"^# HELP {family.name}(_total)? ", text, re.M)) == 1, family.name
    assert agent["id"] not in text
    fastest = min(timed(http) for _ in range(20))
    assert text.count("\n") > 100
    print(f"/metrics: {fastest * 1e3:.1f} ms, {len(text)} bytes")


def timed(http: httpx.Client) -> float:
    """Seconds that a scrape takes."""
    began = time.perf_counter()
    scraped(http)
    return time.perf_counter() - began


class Prometheus:
    """Debian's, scraping a Heeler every second."""

    def __init__(self, folder: Path, target: str) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        config = folder / "prometheus.yml"
        config.write_text(
            "scrape_configs:\n"
            "  - job_name: heeler\n"
            "    scrape_interval: 1s\n"
            f"    static_configs: [{{targets: ['{target}']}}]\n"
        )
        self.log = (folder / "prometheus.log").open("wb")
        self.process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=self.log,
            stderr=self.log,
        )

    def value(self, query: str) -> float:
        """The one value of a query; 0 where there is none."""
        url = f"{self.url}/api/v1/query"
        found = httpx.get(url, params={"query": query}).json()["data"]["result"]
        return float(found[0]["value"][1]) if found else 0.0

    def ready(self) -> bool:
        """Whether it listens, and answers queries: at first it refuses them all with a 503."""
        try:
            return httpx.get(f"{self.url}/-/ready").status_code == 200
        except httpx.TransportError:
            return False

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(SEEN_SECONDS_MAX)
        self.log.close()


needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None,
    reason="NOT TESTED: no `prometheus` here (apt-get install prometheus)",
)


@pytest.fixture
def prometheus(heeler: HeelerInstance, tmp_path: Path) -> Iterator[Prometheus]:
    running = Prometheus(tmp_path, f"127.0.0.1:{heeler.port}")
    try:
        wait_until("prometheus is ready", running.ready, SEEN_SECONDS_MAX)
        yield running
    finally:
        running.stop()


COUNTED = {
    'sum(heeler_http_requests_total{method="POST",route="/v1/agents/{agent_id}/messages",'
    'status="200"})': 3,
    'sum(heeler_commands_handled_total{command="agent.run.start",outcome="accepted"})': 3,
    'sum(heeler_commands_handled_total{command="memory.block.edit",outcome="accepted"})': 3,
    'sum(heeler_events_appended_total{event="agent.run.completed"})': 3,
    "sum(heeler_runs_started_total)": 3,
    'sum(heeler_runs_ended_total{stop_reason="end_turn"})': 3,
    "sum(heeler_run_duration_seconds_count)": 3,
    'sum(heeler_model_calls_total{provider="openai",model="gpt-4o-mini",outcome="answered"})': 6,
    'sum(heeler_tool_calls_total{tool="memory_insert",outcome="success"})': 3,
}


@needs_prometheus
def test_prometheus_sees_the_counters_grow(
    prometheus: Prometheus, http: httpx.Client, agent: dict[str, Any], trace_id: str
) -> None:
    ask(http, agent, insert("Likes tea"), trace_id)
    wait_until("every process is heard", lambda: all_told(http), SEEN_SECONDS_MAX)
    told = {query: prometheus.value(query) for query in COUNTED}

    def steady() -> bool:
        before = dict(told)
        told.update({query: prometheus.value(query) for query in COUNTED})
        return all(told.values()) and before == told

    wait_until("prometheus has everything", steady, SEEN_SECONDS_MAX)
    for count in range(3):
        ask(http, agent, insert(f"Likes tea {count}"), trace_id)

    def grown() -> dict[str, float]:
        return {query: prometheus.value(query) - told[query] for query in COUNTED}

    wait_until("prometheus saw them grow", lambda: grown() == COUNTED, SEEN_SECONDS_MAX)
    tokens = prometheus.value('sum(heeler_model_tokens_total{kind="input"})')
    assert tokens > 0
    assert prometheus.value("max(heeler_agents)") >= 1
    assert prometheus.value("sum(heeler_runs_running)") == 0
    assert prometheus.value('max(heeler_relay_lag_events{service="agent"})') >= 0
    for service in names():
        assert prometheus.value(f'count(heeler_dead_letters{{service="{service}"}})') == 1
    assert prometheus.value("count(heeler_dead_letters)") == len(names())
    assert prometheus.value("sum(heeler_dead_letters)") == 0

    def counted() -> bool:
        return prometheus.value("count(process_resident_memory_bytes)") == len(names())

    wait_until("a process that another test has killed is forgotten", counted, SEEN_SECONDS_MAX)


@pytest.mark.skipif(
    shutil.which("promtool") is None,
    reason="NOT TESTED: no `promtool` here (apt-get install prometheus)",
)
def test_prometheus_finds_nothing_wrong_with_the_names(http: httpx.Client) -> None:
    wait_until("every process is heard", lambda: all_told(http), SEEN_SECONDS_MAX)
    checked = subprocess.run(
        ["promtool", "check", "metrics"],
        input=scraped(http),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_the_log_says_who_ran_which_tool(
    heeler: HeelerInstance, http: httpx.Client, agent: dict[str, Any], trace_id: str
) -> None:
    documented = re.search(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert documented, "the page has the query"
    [called, *_] = ask(http, agent, insert("Likes tea"), trace_id)["messages"]
    wanted = (
        "user-00000000-0000-4000-8000-000000000000",
        called["run_id"],
        "memory_insert",
        called["tool_call"]["tool_call_id"],
        "success",
    )

    def audited() -> bool:
        rows = heeler.psql(documented[1])
        return [row[2:] for row in rows if row[3] == called["run_id"]] == [wanted]

    wait_until("the tool call is in the log", audited, SEEN_SECONDS_MAX)


async def test_every_service_answers_the_micro_protocol(heeler: HeelerInstance) -> None:
    client = await nats.connect(heeler.nats_url)
    try:
        for service in names():
            pong = json.loads(
                (await client.request(f"$SRV.PING.{service}", timeout=ANSWER_SECONDS_MAX)).data
            )
            assert (pong["name"], pong["type"]) == (service, "io.nats.micro.v1.ping_response")
            info = json.loads(
                (await client.request(f"$SRV.INFO.{service}", timeout=ANSWER_SECONDS_MAX)).data
            )
            assert [(endpoint["name"], endpoint["subject"]) for endpoint in info["endpoints"]] == [
                ("metrics", f"{service}.metrics")
            ]
            text = (
                await client.request(f"{service}.metrics", timeout=ANSWER_SECONDS_MAX)
            ).data.decode()
            assert f'service="{service}"' in text
            stats = json.loads(
                (await client.request(f"$SRV.STATS.{service}", timeout=ANSWER_SECONDS_MAX)).data
            )
            [endpoint] = stats["endpoints"]
            assert endpoint["num_requests"] >= 1
            assert all(name.startswith(service) for name in endpoint["data"]["commands"])
    finally:
        await client.close()
