"""Templates and deployments in memory: commands in; events, rows, and what is made elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from libs.contracts.agent.agents import AttachTool, CreateAgent, UpdateAgent
from libs.contracts.api.deployments import (
    DeploymentRequest,
    EndDeployment,
    MigrateDeployment,
    PresentBlock,
)
from libs.contracts.api.templates import (
    VERSIONS_MAX,
    ChangeTemplate,
    CreateTemplate,
    DeleteTemplate,
    MigrationOptions,
    RenameTemplate,
    RollBackTemplate,
    SaveTemplateVersion,
    TemplateBlock,
    TemplateContent,
    TemplateVersionSaved,
    version_id,
)
from libs.contracts.bus_messages import (
    CONFLICT,
    INVALID,
    NOT_FOUND,
    TOO_LARGE,
    UNPROCESSABLE,
    Accepted,
    Rejected,
)
from libs.contracts.letta.request_size_limits import BLOCK_VALUE_CHARS_MAX
from libs.contracts.memory.blocks import CreateBlocks, DeleteBlock, UpdateBlock
from libs.contracts.tools.base_tools.file_tools import FILE_TOOLS
from services.api.domain.deployment_plan import agent_id_of, group_id_of
from services.api.domain.template import Template
from services.api.domain.template_variables import substitute, substituted_chars
from tests.unit.api.template_world import (
    ADA,
    CLERK,
    DEPLOYMENT,
    HEAD,
    HUMAN,
    RULES,
    TEAM,
    TEMPLATE,
    Elsewhere,
    Process,
    World,
)
from tests.unit.given import NOW

OTHER = "template-2"
BRIEF = TEAM.model_copy(update={"type": "classic", "group": None, "agents": [CLERK]}).model_copy(
    update={"blocks": [HUMAN.model_copy(update={"agents": ["clerk"]}), RULES]}
)
LONG = BRIEF.model_copy(
    update={"agents": [CLERK.model_copy(update={"fields": {"system": "Be long."}})]}
)
CLERK_ID = agent_id_of(DEPLOYMENT, "clerk")
# What stands in the log of a deployment that came to its end.
MADE = ["deployment.started", "deployment.completed"]
UNDONE = ["deployment.started", "deployment.refused", "deployment.undone"]


def refusal(reply: Accepted | Rejected, code: str) -> str:
    assert isinstance(reply, Rejected), reply
    assert reply.code == code, reply
    return reply.reason


def new(name: str, template_id: str = OTHER, content: TemplateContent = BRIEF) -> CreateTemplate:
    return CreateTemplate(template_id=template_id, project_id="default", name=name, content=content)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def process(world: World) -> Process:
    return Process(world)


class TestTemplates:
    async def test_a_name_is_one_templates_in_its_project(
        self, world: World, process: Process
    ) -> None:
        await process.save(name="clerk")
        assert "`name`" in refusal(await process.tell(new("clerk")), CONFLICT)
        elsewhere = new("clerk").model_copy(update={"project_id": "project-1"})
        assert isinstance(await process.tell(elsewhere), Accepted)
        renamed = RenameTemplate(template_id=TEMPLATE, name="head")
        assert isinstance(await process.tell(renamed), Accepted)
        assert isinstance(await process.tell(new("clerk", "template-3")), Accepted)
        assert isinstance(await process.tell(DeleteTemplate(template_id=TEMPLATE)), Accepted)
        assert isinstance(await process.tell(new("head", "template-4")), Accepted)
        assert len(list(world.schema.rows("template_versions"))) == 3

    @pytest.mark.parametrize("name", ["", "a b", "a:1", "a/b", "save", "x" * 101])
    async def test_what_is_no_name_is_refused(self, process: Process, name: str) -> None:
        assert "`name`" in refusal(await process.tell(new(name)), UNPROCESSABLE)

    async def test_a_rollback_saves_what_no_version_has(
        self, world: World, process: Process
    ) -> None:
        await process.save(BRIEF)
        await process.tell(ChangeTemplate(template_id=TEMPLATE, content=LONG))
        back = RollBackTemplate(template_id=TEMPLATE, version=1)
        assert isinstance(await process.tell(back), Accepted)
        assert isinstance(await process.tell(back), Accepted)
        assert world.story(TEMPLATE) == [
            "template.created",
            "template.version_saved",
            "template.changed",
            "template.version_saved",
            "template.changed",
        ]
        assert await world.version_content("", TEMPLATE, 2) == LONG
        reason = refusal(await process.tell(back.model_copy(update={"version": 3})), NOT_FOUND)
        assert "version 3" in reason

    async def test_versions_have_a_bound(self, process: Process) -> None:
        template = Template.blank(TEMPLATE)
        template.create(new("clerk", TEMPLATE), at=NOW)
        for _ in range(VERSIONS_MAX - 1):
            assert template.save("", None, at=NOW) is None
        refused = template.save("", None, at=NOW)
        assert refused is not None
        assert refused.code == CONFLICT
        events = template.take_new_events()
        assert sum(isinstance(event, TemplateVersionSaved) for event in events) == VERSIONS_MAX

    @pytest.mark.parametrize(
        ("changes", "code", "words"),
        [
            ({"agents": []}, UNPROCESSABLE, "`agents`"),
            ({"agents": [CLERK, CLERK]}, UNPROCESSABLE, "clerk"),
            ({"agents": [CLERK, HEAD]}, UNPROCESSABLE, "cluster"),
            ({"type": "dynamic"}, UNPROCESSABLE, "managerAgentEntityId"),
            ({"blocks": [RULES, RULES]}, UNPROCESSABLE, "rules"),
            ({"blocks": [HUMAN]}, UNPROCESSABLE, "head"),
            (
                {"blocks": [RULES, RULES.model_copy(update={"entity_id": "again"})]},
                UNPROCESSABLE,
                "label rules",
            ),
            ({"blocks": [RULES.model_copy(update={"limit": 0})]}, UNPROCESSABLE, "`limit`"),
            (
                {"agents": [CLERK.model_copy(update={"fields": {"tags": "none"}})]},
                UNPROCESSABLE,
                "`agents[0]`: `tags`",
            ),
            ({"blocks": [RULES.model_copy(update={"value": "x" * (1 << 20)})]}, TOO_LARGE, "bytes"),
        ],
    )
    async def test_what_no_agent_could_be_made_from_is_refused(
        self, process: Process, changes: dict[str, Any], code: str, words: str
    ) -> None:
        content = BRIEF.model_copy(update=changes)
        assert words in refusal(await process.tell(new("clerk", content=content)), code)


class TestVariables:
    def test_values_are_not_read_for_variables(self) -> None:
        text = "{{a}} and {{ b }}, {{c}}, {{ not a name }}"
        values = {"a": "{{b}}", "b": "B"}
        assert substitute(text, values) == "{{b}} and B, {{c}}, {{ not a name }}"
        assert substituted_chars(text, values) == len(substitute(text, values))

    async def test_values_that_would_be_too_long_are_refused_unmade(self, process: Process) -> None:
        bomb = TemplateBlock(
            entity_id="bomb",
            label="bomb",
            value="{{x}}" * 100_000,
            limit=BLOCK_VALUE_CHARS_MAX,
            agents=["clerk"],
        )
        await process.save(BRIEF.model_copy(update={"blocks": [bomb]}))
        request = DeploymentRequest(memory_variables={"x": "y" * 100_000})
        reason = refusal(await process.deploy(request), UNPROCESSABLE)
        assert "`memory_variables`" in reason
        assert "bomb" in reason

    async def test_variables_are_missed_by_name(self, process: Process) -> None:
        secret = CLERK.model_copy(update={"tool_variables": {"TOKEN": None}})
        await process.save(BRIEF.model_copy(update={"agents": [secret]}))
        reason = refusal(await process.deploy(DeploymentRequest()), UNPROCESSABLE)
        assert "`memory_variables`: `name`" in reason
        reason = refusal(await process.deploy(ADA), UNPROCESSABLE)
        assert "`tool_variables`: `TOKEN`" in reason


async def deployed(world: World, process: Process) -> None:
    """Make the agents of a team, however often the services are away."""
    await process.save()
    assert isinstance(await process.deploy(), Accepted)
    await process.sweep()


async def commands_asked(refuses: tuple[str, str] = ("", "")) -> int:
    """How many commands a deployment needs where nothing is away."""
    world = World()
    world.elsewhere.refuses = refuses
    await deployed(world, Process(world))
    return world.elsewhere.asked


class TestDeployments:
    async def test_agents_their_blocks_and_their_group_are_made(
        self, world: World, process: Process
    ) -> None:
        await deployed(world, process)
        assert world.story() == MADE
        row = world.row("deployments")
        assert row["agent_ids"] == [CLERK_ID, agent_id_of(DEPLOYMENT, "head")]
        assert row["group_id"] == group_id_of(DEPLOYMENT)
        [blocks] = [each for each in world.elsewhere.commands if isinstance(each, CreateBlocks)]
        [human] = blocks.blocks
        assert human.value == "Called Ada"
        assert world.elsewhere.there == {*row["agent_ids"], row["group_id"], human.id}
        clerk, head = (each for each in world.elsewhere.commands if isinstance(each, CreateAgent))
        assert clerk.request["block_ids"] == head.request["block_ids"] == [human.id]
        assert clerk.request["template_id"] == version_id(TEMPLATE, 1)
        assert clerk.request["base_template_id"] == TEMPLATE
        assert (clerk.deployment_id, clerk.entity_id) == (DEPLOYMENT, "clerk")

    @pytest.mark.parametrize("sent", [False, True])
    async def test_whatever_is_away_all_is_made_once(self, sent: bool) -> None:
        for number in range(1, await commands_asked() + 1):
            world = World()
            world.elsewhere = Elsewhere(away_at=number, sent=sent)
            await deployed(world, Process(world))
            assert world.story() == MADE, number
            assert len(world.elsewhere.there) == 4, number

    @pytest.mark.parametrize(
        "refuses",
        [
            ("blocks.create", ""),
            ("agent.create", "clerk"),
            ("agent.create", "head"),
            ("agent_folders.attach", ""),
            ("attachment.replace_identities", ""),
            ("sleeptime.enable", ""),
            ("group.create", ""),
        ],
    )
    @pytest.mark.parametrize("sent", [False, True])
    async def test_whatever_is_refused_nothing_is_left(
        self, refuses: tuple[str, str], sent: bool
    ) -> None:
        for number in range(await commands_asked(refuses) + 1):
            world = World()
            world.elsewhere = Elsewhere(refuses=refuses, away_at=number, sent=sent)
            await deployed(world, Process(world))
            assert world.story() == UNDONE, number
            assert world.elsewhere.there == set(), number
            row = world.row("deployments")
            assert (row["status"], row["refused_code"]) == ("undone", INVALID)

    async def test_another_process_goes_on(self, world: World, process: Process) -> None:
        await process.save()
        world.elsewhere.away_at = 3
        await process.deploy()
        assert world.story() == ["deployment.started"]
        await Process(world, "api-2").sweep()
        assert world.story() == MADE

    async def test_a_deployment_ends_once(self, world: World, process: Process) -> None:
        await deployed(world, process)
        for _ in range(2):
            await process.tell(EndDeployment(deployment_id=DEPLOYMENT))
        assert world.story() == [*MADE, "deployment.ended"]
        assert list(world.schema.rows("deployments")) == []
        assert isinstance(await process.deploy(), Accepted)
        assert world.story() == [*MADE, "deployment.ended"], "what ended does not begin again"


class TestMigrations:
    async def test_agents_follow_to_a_version_that_wants_it(
        self, world: World, process: Process
    ) -> None:
        await process.save(BRIEF)
        await process.deploy()
        world.blocks = [
            PresentBlock(id="block-1", label="human", deployment_id=DEPLOYMENT),
            PresentBlock(id="block-2", label="rules", deployment_id=DEPLOYMENT),
            PresentBlock(id="block-3", label="own", deployment_id=None),
        ]
        world.elsewhere.there |= {block.id for block in world.blocks}
        new_block = TemplateBlock(
            entity_id="new", label="new", value="For {{name}}", agents=["clerk"]
        )
        human = BRIEF.blocks[0].model_copy(update={"preserve_on_migration": True})
        content = LONG.model_copy(update={"blocks": [human, new_block]})
        await process.tell(ChangeTemplate(template_id=TEMPLATE, content=content))
        options = MigrationOptions(block_strategy="reconcile-all")
        await process.tell(SaveTemplateVersion(template_id=TEMPLATE, migration=options))
        before = len(world.elsewhere.commands)
        await process.sweep()
        asked = world.elsewhere.commands[before:]
        [update] = [each for each in asked if isinstance(each, UpdateAgent)]
        assert update.request["system"] == "Be long."
        assert update.request["template_id"] == version_id(TEMPLATE, 2)
        [changed] = [each for each in asked if isinstance(each, UpdateBlock)]
        assert changed.block_id == "block-1"
        assert "value" not in changed.changes
        [made] = [each for each in asked if isinstance(each, CreateBlocks)]
        assert [block.value for block in made.blocks] == ["For Ada"]
        assert [each.block_id for each in asked if isinstance(each, DeleteBlock)] == ["block-2"]
        await process.sweep()
        assert world.story()[2:] == [
            "deployment.migration_started",
            "deployment.migration_ended",
        ]

    async def test_what_a_version_has_no_more_is_taken_from_its_agents(
        self, world: World, process: Process
    ) -> None:
        """The tools for the files of folders that they keep stay."""
        await process.save(BRIEF)
        await process.deploy()
        world.folders = ["source-22222222-2222-4222-8222-222222222222"]
        bare = CLERK.model_copy(update={"fields": {"model": "openai/gpt-4o-mini"}})
        content = BRIEF.model_copy(update={"agents": [bare]})
        await process.tell(ChangeTemplate(template_id=TEMPLATE, content=content))
        options = MigrationOptions(preserve_sources=True)
        before = len(world.elsewhere.commands)
        await process.tell(SaveTemplateVersion(template_id=TEMPLATE, migration=options))
        await process.sweep()
        asked = world.elsewhere.commands[before:]
        [update] = [each for each in asked if isinstance(each, UpdateAgent)]
        for name in ("tool_ids", "tool_rules", "tags"):
            assert update.request[name] == []
        attached = [each.tool_id for each in asked if isinstance(each, AttachTool)]
        assert attached == [tool.id for tool in FILE_TOOLS]

    async def test_agents_that_lack_a_variable_stay_as_they_are(
        self, world: World, process: Process
    ) -> None:
        await process.save(BRIEF)
        await process.deploy()
        block = RULES.model_copy(update={"value": "Only {{wish}}"})
        content = BRIEF.model_copy(update={"blocks": [block]})
        await process.tell(ChangeTemplate(template_id=TEMPLATE, content=content))
        await process.tell(SaveTemplateVersion(template_id=TEMPLATE, migration=MigrationOptions()))
        await process.sweep()
        assert "wish" in world.row("deployments")["refused_reason"]
        assert not [each for each in world.elsewhere.commands if isinstance(each, UpdateAgent)]
        migrate = MigrateDeployment(
            deployment_id=DEPLOYMENT,
            template_id=TEMPLATE,
            version=2,
            options=MigrationOptions(),
            memory_variables={"wish": "tea"},
        )
        assert isinstance(await process.tell(migrate), Accepted)
        assert world.row("deployments")["refused_reason"] is None

    async def test_there_and_back_again_takes_effect_each_time(
        self, world: World, process: Process
    ) -> None:
        await process.save(BRIEF)
        await process.deploy()
        await process.tell(ChangeTemplate(template_id=TEMPLATE, content=LONG))
        await process.tell(SaveTemplateVersion(template_id=TEMPLATE))
        for version in (2, 1, 2):
            migrate = MigrateDeployment(
                deployment_id=DEPLOYMENT,
                template_id=TEMPLATE,
                version=version,
                options=MigrationOptions(),
            )
            assert isinstance(await process.tell(migrate), Accepted)
        updates = [each for each in world.elsewhere.commands if isinstance(each, UpdateAgent)]
        assert [update.request["system"] for update in updates] == [
            "Be long.",
            "Be brief.",
            "Be long.",
        ]

    async def test_agents_follow_only_to_what_is_saved_after_they_were_made_or_moved(
        self, world: World, process: Process
    ) -> None:
        await process.save(BRIEF)
        await process.tell(ChangeTemplate(template_id=TEMPLATE, content=LONG))
        save = SaveTemplateVersion(template_id=TEMPLATE, migration=MigrationOptions())
        await process.tell(save)
        await process.deploy(version=1)
        await process.sweep()
        assert world.story() == MADE, "they were wanted of version 1"
        for version in (2, 1):
            migrate = MigrateDeployment(
                deployment_id=DEPLOYMENT,
                template_id=TEMPLATE,
                version=version,
                options=MigrationOptions(),
            )
            assert isinstance(await process.tell(migrate), Accepted)
            await process.sweep()
            assert world.row("deployments")["version"] == version
        await process.tell(save)
        await process.sweep()
        assert world.row("deployments")["version"] == 3

    async def test_a_deployment_of_another_template_is_not_found(
        self, world: World, process: Process
    ) -> None:
        await process.save(BRIEF)
        await process.deploy()
        await process.tell(new("other"))
        migrate = MigrateDeployment(
            deployment_id=DEPLOYMENT, template_id=OTHER, version=1, options=MigrationOptions()
        )
        assert DEPLOYMENT in refusal(await process.tell(migrate), NOT_FOUND)
