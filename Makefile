# Everything a person types. `make` alone lists it.
PYTHON := .venv/bin/python
# Where it runs: make up MODE=compose has everything in containers.
MODE ?= embedded
LAUNCH_embedded := $(PYTHON) -m deploy.embedded
LAUNCH_compose := $(PYTHON) -m deploy.containers
LAUNCH = $(or $(LAUNCH_$(MODE)),$(error MODE is $(MODE): it must be embedded or compose))
# Where the data is and which port the API has: make up HEELER_HOME=/some/where HEELER_PORT=8284
ifdef HEELER_HOME
export HEELER_HOME
endif
ifdef HEELER_PORT
export HEELER_PORT
endif
# How many processes of each service: make up HEELER_REPLICAS=2
ifdef HEELER_REPLICAS
export HEELER_REPLICAS
endif
# All services in one process, for small machines: make up HEELER_PROCESSES=one
ifdef HEELER_PROCESSES
export HEELER_PROCESSES
endif

# Compiled modules are kept, also where the environment says otherwise: each process that starts would
# compile them again, and those of the tests take longest.
export PYTHONDONTWRITEBYTECODE :=

# How many processes run the tests; most of them wait for something.
TEST_WORKERS ?= 4
PYTEST = $(PYTHON) -m pytest --workers $(TEST_WORKERS)

.DEFAULT_GOAL := help
.PHONY: help up down status doctor watch logs wheels psql test quick check types imports english unit bench bench-paired bench-memory bench-store chaos fuzz soak sim replays sim-score home clean wipe

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

up: ## Start Heeler (or with MODE=compose, HEELER_REPLICAS=2, HEELER_PROCESSES=one)
	@deploy/bootstrap.sh
	@$(LAUNCH) up

down: ## Stop it
	@deploy/bootstrap.sh
	@$(LAUNCH) down

status: ## Show what runs, and whether it is healthy
	@deploy/bootstrap.sh
	@$(LAUNCH) status $(ARGS)

doctor: ## Find what is wrong with it, and how to mend that (ARGS=--json)
	@deploy/bootstrap.sh
	@$(PYTHON) -m cli doctor $(ARGS)

watch: ## Print the events on the bus (ARGS=--all: commands and deltas too)
	@deploy/bootstrap.sh
	@$(LAUNCH) watch $(ARGS)

logs: ## Follow the logs
ifeq ($(MODE),compose)
	@$(LAUNCH) logs
else
	@tail -n 20 -F "$${HEELER_HOME:-.heeler}"/logs/*.log
endif

wheels: ## Download the packages for MODE=compose, where containers reach no index
	@deploy/bootstrap.sh
	@$(LAUNCH_compose) wheels $(ARGS)

psql: ## Open the database (ARGS='-c "select 1"')
	@deploy/bootstrap.sh
	@$(LAUNCH) psql $(ARGS)

.PHONY: dump restore
dump: ## Write the database of a running server into a file (FILE=heeler.dump)
	@deploy/bootstrap.sh
	@$(LAUNCH) dump $(or $(FILE),$(error say into which file: make dump FILE=heeler.dump))

restore: ## Fill a new home from such a file, and start it again (FILE=heeler.dump)
	@deploy/bootstrap.sh
	@$(LAUNCH) restore $(or $(FILE),$(error say from which file: make restore FILE=heeler.dump))
	@$(LAUNCH) down
	@$(LAUNCH) up

.PHONY: migrate-letta
migrate-letta: ## Take over the agents of a Letta server 0.16 (FROM=postgres://..., ARGS=--help)
	@deploy/bootstrap.sh
	@$(PYTHON) -m deploy.letta_migration $(or $(FROM),$(error say from where: make migrate-letta FROM=postgres://...)) $(ARGS)

.PHONY: rebuild
rebuild: ## Rebuild what clients read from the events, while it serves (ARGS=--help)
	@deploy/bootstrap.sh
	@$(LAUNCH) rebuild $(ARGS)

# What takes longest of those that hurt a running server: `make chaos` runs them.
LONGEST_CHAOS = r14_late_acks r15_partitions r16_slow_and_lossy r17_disk_full r19_clocks r20_starving r28_hot_agents r36_soak
test: ## Check the code and run all tests (TEST_SERVERS=containers: on real images)
	@deploy/bootstrap.sh --dev
	@$(MAKE) --no-print-directory check
	@$(PYTEST) $(LONGEST_CHAOS:%=--ignore=tests/chaos/test_%.py) $(ARGS)

# Without the tests of what tests and measures. Most tests wait for something: six are done soonest on
# two processors.
quick: TEST_WORKERS = 6
quick: ## What a change needs while one works: check, units, contracts in memory, one walk
	@deploy/bootstrap.sh --dev
	@$(MAKE) --no-print-directory check
	@$(PYTEST) --quick tests/e2e/test_messages.py tests/sim tests/contract tests/unit \
		$(addprefix --ignore=tests/unit/,scripted_model benchmarks chaos) $(ARGS)

check: ## Lint, format, plain names, linear patterns, types, and who may import whom
	@deploy/bootstrap.sh --dev
	@.venv/bin/ruff check
	@.venv/bin/ruff format --check
	@$(MAKE) --no-print-directory -j2 --output-sync=target types english patterns imports

types:
	@.venv/bin/mypy

imports:
	@.venv/bin/lint-imports

english:
	@$(PYTHON) -m tests.plain_english

.PHONY: patterns
patterns:
	@$(PYTHON) -m tests.slow_patterns

unit: ## Run the tests that need no server
	@deploy/bootstrap.sh --dev
	@$(PYTHON) -m pytest tests/unit $(ARGS)

bench: ## Measure the system, the sandbox, MCP, passages; with ARGS the first alone (ARGS=--help)
	@deploy/bootstrap.sh --dev
	@$(PYTHON) -m benchmarks $(ARGS)
	@[ -n "$(ARGS)" ] || $(MAKE) --no-print-directory bench-sandbox bench-mcp bench-passages

bench-paired: ## Measure beside another checkout (ARGS=../other)
	@deploy/bootstrap.sh --dev
	@$(PYTHON) -m benchmarks.paired $(ARGS)

bench-memory: ## Measure idle memory, with a process for each service and with one
	@deploy/bootstrap.sh --dev
	@$(PYTHON) -m benchmarks.memory $(ARGS)

.PHONY: bench-start
bench-start: ## Measure a warm start, and how long a killed service is away
	@deploy/bootstrap.sh --dev
	@$(PYTHON) -m benchmarks.start $(ARGS)

.PHONY: bench-rebuild
bench-rebuild: ## Measure a rebuild of 1,000 agents and 20,000 messages under load (ARGS=--help)
	@deploy/bootstrap.sh --dev
	@$(PYTHON) -m benchmarks.rebuild $(ARGS)

.PHONY: bench-history
bench-history: ## Measure an agent with 100,000 messages beside empty ones (ARGS=--help)
	@deploy/bootstrap.sh --dev
	@$(PYTHON) -m benchmarks.long_history $(ARGS)

.PHONY: bench-growth
bench-growth: ## Measure what requests read with 1,000 and 20,000 agents (ARGS=--help)
	@deploy/bootstrap.sh --dev
	@$(PYTHON) -m benchmarks.growth $(ARGS)

.PHONY: bench-neighbours
bench-neighbours: ## Measure a client beside hostile requests and heavy work (ARGS=--help)
	@deploy/bootstrap.sh --dev
	@$(PYTHON) -m benchmarks.neighbours $(ARGS)

.PHONY: bench-agent-toml
bench-agent-toml: ## Measure how long the file of an agent takes to read and to check
	@deploy/bootstrap.sh --dev
	@$(PYTHON) -m benchmarks.agent_toml $(ARGS)

.PHONY: bench-migration
bench-migration: ## Measure how 100,000 messages move in from a Letta database (ARGS=--server)
	@deploy/bootstrap.sh --dev
	@$(PYTHON) -m benchmarks.letta_migration $(ARGS)

.PHONY: bench-sandbox
bench-sandbox: ## Measure calls in the sandbox, and through an agent (ARGS=--help)
	@deploy/bootstrap.sh --dev
	@$(PYTHON) -m benchmarks.sandbox $(ARGS)
	@$(PYTHON) -m benchmarks.tool_calls $(ARGS)

.PHONY: bench-mcp
bench-mcp: ## Measure calls of local MCP servers over each transport (ARGS=--help)
	@deploy/bootstrap.sh --dev
	@$(PYTHON) -m benchmarks.mcp $(ARGS)

.PHONY: bench-passages
bench-passages: ## Measure how 100,000 passages are embedded, stored and found (ARGS=--help)
	@deploy/bootstrap.sh --dev
	@$(PYTHON) -m benchmarks.passages $(ARGS)

.PHONY: bench-files
bench-files: ## Measure searches and inserts while files are embedded (ARGS=--help)
	@deploy/bootstrap.sh --dev
	@$(PYTHON) -m benchmarks.files $(ARGS)

.PHONY: bench-routing
bench-routing: ## Measure what it takes to route a message (ARGS=--help)
	@deploy/bootstrap.sh --dev
	@$(PYTHON) -m benchmarks.routing $(ARGS)

.PHONY: bench-idle
bench-idle: ## Measure what is read while nobody asks, with 1,000 and 20,000 agents (ARGS=--help)
	@deploy/bootstrap.sh --dev
	@$(PYTHON) -m benchmarks.idle $(ARGS)

.PHONY: bench-schedules
bench-schedules: ## Measure how late 1,000 schedules fire that are due at one moment (ARGS=--help)
	@deploy/bootstrap.sh --dev
	@$(PYTHON) -m benchmarks.schedules $(ARGS)

bench-store: ## Measure appending to the event store
	@deploy/bootstrap.sh --dev
	@$(PYTHON) -m benchmarks.eventstore $(ARGS)

.PHONY: walk
walk: ## Walk through the tutorial as a new user, in a clean container, by the clock
	@deploy/bootstrap.sh --dev
	@$(PYTHON) -m tests.walk $(ARGS)

chaos: ## Kill parts, cut connections, turn clocks under load; look for losses (ARGS=--help)
	@deploy/bootstrap.sh --dev
	@$(PYTHON) -m tests.chaos $(ARGS)

.PHONY: large-files
large-files: ## Upload 200 MiB, and files that unpack to 300; no service may grow (ARGS=--help)
	@deploy/bootstrap.sh --dev
	@$(PYTHON) -m tests.chaos --only LARGE-FILES --minutes 5 $(ARGS)

.PHONY: slow-text
slow-text: ## Fill each field and file with what is slow to read (ARGS='--fillings 5 --path mcp')
	@deploy/bootstrap.sh --dev
	@$(PYTHON) -m tests.slow_text $(ARGS)

fuzz: ## Ask hostile requests, and look for answers of 500 (ARGS='--seeds 9 --requests 10000')
	@deploy/bootstrap.sh --dev
	@$(PYTHON) -m tests.fuzz $(ARGS)

soak: ## Half an hour of mixed load with kills; nothing may grow (MINUTES=480)
	@deploy/bootstrap.sh --dev
	@$(PYTHON) -m tests.chaos --only R36 --minutes $(or $(MINUTES),30) $(ARGS)

sim: ## Run the services in 2,000 simulated worlds (SEEDS=100)
	@deploy/bootstrap.sh --dev
	@$(PYTHON) -m tests.sim --seeds $(or $(SEEDS),2000) $(ARGS)

replays: ## Replay 500 random runs, each of which must come out the same (RUNS=100)
	@deploy/bootstrap.sh --dev
	@$(PYTHON) -m tests.unit.agent.replayed_runs --runs $(or $(RUNS),500) $(ARGS)

.PHONY: mutants
mutants: ## Change the code in 200 places; a test must notice 3 of 4 (ARGS='--seed 2 --changes 40')
	@deploy/bootstrap.sh --dev
	@nice $(PYTHON) -m tests.mutants --found 75 $(ARGS)

sim-score: ## Find every planted bug by simulation, and write the table into docs/simulator.md
	@deploy/bootstrap.sh --dev
	@$(PYTHON) -m tests.sim --score

.PHONY: fleet-histories
fleet-histories: ## Run 500 random histories of a fleet (HISTORIES=5000)
	@deploy/bootstrap.sh --dev
	@FLEET_HISTORIES=$(or $(HISTORIES),500) $(PYTHON) -m pytest -q \
		tests/unit/cli/test_fleet_histories.py

.PHONY: histories
histories: ## Run 10,000 random histories of conversations (HISTORIES=500, ARGS=--help)
	@deploy/bootstrap.sh --dev
	@$(PYTHON) -m tests.histories --histories $(or $(HISTORIES),10000) $(ARGS)

home: ## Keep a dump of a home that this release makes (NAME=v1.2), for the tests of later ones
	@deploy/bootstrap.sh --dev
	@$(PYTHON) -m tests.homes $(NAME) $(ARGS)

clean: ## Delete caches and the Python environment; the data stays
	@rm -rf .venv .heeler-tools .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache tests/e2e/*/node_modules tests/mcp_servers/foreign/node_modules
	@find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +

wipe: ## Stop Heeler and delete its data: all agents are gone
	@deploy/bootstrap.sh
	@$(LAUNCH) wipe
