"""What each type of manager decides: who is asked next, and when a run is over."""

from __future__ import annotations

import pytest

from libs.contracts.groups.groups import HOPS_DEFAULT, GroupConfig
from services.groups.domain.conversations.group_conversation_state import MemberRun
from services.groups.domain.managers.all_managers import MANAGERS, decide
from services.groups.domain.managers.decisions import (
    MEMBER_RUNS_AT_ONCE_MAX,
    NOBODY_ANSWERED,
    NOBODY_THERE,
    Ask,
    AskModel,
    Decision,
    End,
    Fail,
    GroupFacts,
    Participant,
    SelectSpeaker,
    Wait,
)
from tests.unit.groups.group_facts import ALICE, BOB, CAROL, MANAGER, call_of, facts_of, hop_of

HAND_OVER, ASK = "hand_over", "send_message_to_group_members"


def decided(facts: GroupFacts) -> Decision:
    return decide(facts, is_private=False)


def asked(decision: Decision) -> list[str]:
    """The agents that are asked."""
    assert isinstance(decision, Ask), decision
    return [wanted.agent_id for wanted in decision.hops]


def hops(*speakers: Participant, **fields: object) -> list[MemberRun]:
    """Hops of these speakers, one after the other."""
    return [hop_of(speaker, number, **fields) for number, speaker in enumerate(speakers)]


@pytest.mark.parametrize("manager_type", [*MANAGERS])
def test_nothing_is_decided_while_the_only_member_asked_has_not_answered(manager_type: str) -> None:
    who = MANAGER if manager_type in ("supervisor", "dynamic") else ALICE
    facts = facts_of(manager_type, hop_of(who, 0, status="open"), members=(ALICE,))
    assert decided(facts) == Wait()


@pytest.mark.parametrize("manager_type", [*MANAGERS])
def test_a_group_whose_agents_are_all_gone_fails(manager_type: str) -> None:
    facts = facts_of(manager_type, members=(), manager=None)
    failed = decided(facts)
    assert isinstance(failed, Fail)
    assert failed.error_type == NOBODY_THERE


def test_members_speak_in_turn_one_round_by_default() -> None:
    assert asked(decided(facts_of("round_robin"))) == [ALICE.agent_id]
    assert asked(decided(facts_of("round_robin", *hops(ALICE)))) == [BOB.agent_id]
    assert decided(facts_of("round_robin", *hops(ALICE, BOB, CAROL))) == End()


def test_members_speak_up_to_max_turns() -> None:
    config = {"max_turns": 4}
    facts = facts_of("round_robin", *hops(ALICE, BOB, CAROL), config=config)
    assert asked(decided(facts)) == [ALICE.agent_id]
    facts = facts_of("round_robin", *hops(ALICE, BOB, CAROL, ALICE), config=config)
    assert decided(facts) == End()


def test_max_turns_beyond_the_default_of_hops_are_all_there() -> None:
    """V1's clients say `max_turns` alone."""
    said = hops(*([ALICE, BOB] * 19), ALICE)
    assert asked(decided(facts_of("round_robin", *said, config={"max_turns": 40})))
    most = GroupConfig(max_turns=40, hops_max=30)
    assert (most.hop_limit, GroupConfig(max_turns=40).hop_limit) == (30, 40)
    assert GroupConfig(max_turns=3).hop_limit == GroupConfig().hop_limit == HOPS_DEFAULT


def test_the_hop_limit_bounds_max_turns_but_never_the_first_round() -> None:
    config = {"max_turns": 1_000, "hops_max": 2}
    facts = facts_of("round_robin", *hops(ALICE, BOB, CAROL), config=config)
    assert decided(facts) == End()


def test_a_member_that_fails_keeps_no_other_from_speaking() -> None:
    failed = hop_of(ALICE, 0, status="failed", reason="out of tokens")
    assert asked(decided(facts_of("round_robin", failed))) == [BOB.agent_id]


def test_a_deleted_member_is_skipped_and_not_asked_again() -> None:
    skipped = hop_of(ALICE, 0, status="skipped", reason="deleted")
    config = {"max_turns": 3}
    facts = facts_of("round_robin", skipped, *hops(BOB, CAROL), config=config)
    assert asked(decided(facts)) == [BOB.agent_id]


def test_nobody_speaks_twice_in_the_place_of_a_member_that_is_gone() -> None:
    skipped = hop_of(BOB, 1, status="skipped", reason="deleted")
    facts = facts_of("round_robin", hop_of(ALICE, 0), skipped, hop_of(CAROL, 2))
    assert decided(facts) == End()


def test_a_round_in_which_all_fail_fails_with_their_reasons() -> None:
    failed = [hop_of(each, 0, status="failed", reason="broken") for each in (ALICE, BOB, CAROL)]
    ended = decided(facts_of("round_robin", *failed))
    assert isinstance(ended, Fail)
    assert "Alice: broken" in ended.message
    assert ended.error_type == NOBODY_ANSWERED


def test_a_broadcast_asks_all_members_and_so_many_at_once() -> None:
    many = tuple(Participant(f"agent-{number}", f"N{number}") for number in range(40))
    first = asked(decided(facts_of("broadcast", members=many)))
    assert len(first) == MEMBER_RUNS_AT_ONCE_MAX
    open_member_runs = [
        hop_of(each, 0, status="open") for each in many[: MEMBER_RUNS_AT_ONCE_MAX - 2]
    ]
    ended = [
        hop_of(each, 0) for each in many[MEMBER_RUNS_AT_ONCE_MAX - 2 : MEMBER_RUNS_AT_ONCE_MAX]
    ]
    following = asked(decided(facts_of("broadcast", *open_member_runs, *ended, members=many)))
    assert following == ["agent-16", "agent-17"]
    assert (
        decided(facts_of("broadcast", *[hop_of(each, 0) for each in many], members=many)) == End()
    )


def test_a_broadcast_of_which_some_fail_ends_well() -> None:
    failed = hop_of(BOB, 1, status="failed", reason="broken")
    assert decided(facts_of("broadcast", *hops(ALICE, CAROL), failed)) == End()


def test_a_supervisor_that_asks_nobody_answers_alone() -> None:
    assert asked(decided(facts_of("supervisor"))) == [MANAGER.agent_id]
    assert decided(facts_of("supervisor", hop_of(MANAGER, 0))) == End()


def test_a_supervisor_asks_members_and_gets_their_answers() -> None:
    asks = hop_of(MANAGER, 0, calls=[call_of(ASK, message="Well?", agent_names=["bob", "Carol"])])
    first = decided(facts_of("supervisor", asks))
    assert asked(first) == [BOB.agent_id, CAROL.agent_id]
    answers = [
        hop_of(BOB, 1, purpose="ask", asked_in=0, texts=["Yes."]),
        hop_of(CAROL, 2, purpose="ask", asked_in=0, status="failed", reason="broken", texts=[]),
    ]
    second = decided(facts_of("supervisor", asks, *answers))
    assert asked(second) == [MANAGER.agent_id]
    assert isinstance(second, Ask)
    [told] = second.hops[0].answers
    assert told.content == "[Bob]: Yes.\n[Carol]: <error: broken>"
    assert second.hops[0].answers_say_all


def test_a_supervisor_that_names_nobody_asks_all_and_one_that_names_strangers_is_told() -> None:
    asks = hop_of(MANAGER, 0, calls=[call_of(ASK, message="Well?")])
    assert asked(decided(facts_of("supervisor", asks))) == [
        each.agent_id for each in (ALICE, BOB, CAROL)
    ]
    strangers = hop_of(MANAGER, 0, calls=[call_of(ASK, message="Well?", agent_names=["Dave"])])
    told = decided(facts_of("supervisor", strangers))
    assert isinstance(told, Ask)
    assert told.hops[0].answers[0].content.endswith("The members are: Alice, Bob, Carol.")


def test_a_supervisor_is_stopped_by_the_hop_limit() -> None:
    asks = [
        hop_of(MANAGER, number, calls=[call_of(ASK, message="Well?", agent_names=["x"])])
        for number in range(3)
    ]
    ended = decided(facts_of("supervisor", *asks, config={"hops_max": 3}))
    assert ended == End("max_steps")


def test_a_dynamic_manager_picks_by_name() -> None:
    first = decided(facts_of("dynamic"))
    assert asked(first) == [MANAGER.agent_id]
    picks = hop_of(MANAGER, 0, purpose="pick", texts=["**Carol**."])
    assert decided(facts_of("dynamic", picks)) == SelectSpeaker(CAROL.agent_id, "manager")
    assert asked(decided(facts_of("dynamic", picks, next_speaker=CAROL.agent_id))) == [
        CAROL.agent_id
    ]


STORY = Participant("agent-story", "Story_Writer")
WRITER = Participant("agent-writer", "Writer")
ANN = Participant("agent-ann", "Ann")
MING = Participant("agent-ming", "小明")


@pytest.mark.parametrize(
    ("said", "member"),
    [
        ("<think>Bob or Carol? DONE! Bob.</think>\nStory_Writer", STORY),
        ("Bob could, but... </think> Story_Writer", STORY),
        ("Story\\_Writer", STORY),
        ("Story Writer", STORY),
        ("story-writer.", STORY),
        ('**"Story_Writer"**', STORY),
        ("Next: _Story_Writer_!", STORY),
        ("The Writer should go on.", WRITER),
        ("I pick Story Writer, who knows stories.", STORY),
        ("agent-ann", ANN),
        ("下一位是小明。", MING),
        ('{"name": "Ann"}', ANN),
        ("Anna", None),
        ("Another annual answer", None),
        ("Writer or Ann", None),
        ("<think>Ann", None),
        ("...", None),
        ("", None),
    ],
)
def test_a_pick_is_the_one_member_whose_name_is_said(said: str, member: Participant | None) -> None:
    picks = hop_of(MANAGER, 0, purpose="pick", texts=[said])
    decision = decided(facts_of("dynamic", picks, members=(STORY, WRITER, ANN, MING)))
    if member is None:
        assert asked(decision) == [MANAGER.agent_id]
    else:
        assert decision == SelectSpeaker(member.agent_id, "manager")


def test_of_names_that_are_alike_only_the_exact_one_is_taken() -> None:
    plain, other = Participant("agent-1", "C"), Participant("agent-2", "C++")
    facts = facts_of("dynamic", members=(plain, other))
    assert facts.member_named_in("C++") == other
    assert facts.member_named_in("C") == plain
    assert facts.member_named_in("I take c++") is None


def test_a_long_pick_names_nobody() -> None:
    assert facts_of("dynamic").member_named_in("Alice, since " + "so " * 20_000) is None


def test_the_token_in_escapes_ends_a_run() -> None:
    ends = hop_of(MANAGER, 0, purpose="pick", texts=["ALL\\_DONE"])
    assert decided(facts_of("dynamic", ends, config={"termination_token": "ALL_DONE"})) == End()


def test_a_pick_that_is_no_member_is_asked_again_once_and_then_goes_by_rotation() -> None:
    wrong = hop_of(MANAGER, 0, purpose="pick", texts=["Dave"])
    again = decided(facts_of("dynamic", wrong))
    assert asked(again) == [MANAGER.agent_id]
    assert isinstance(again, Ask)
    assert "'Dave'" in again.hops[0].question
    wrong_again = hop_of(MANAGER, 1, purpose="pick", texts=["Erin"])
    assert decided(facts_of("dynamic", wrong, wrong_again)) == SelectSpeaker(
        ALICE.agent_id, "rotation"
    )


def test_a_dynamic_group_ends_with_its_token_or_after_max_turns() -> None:
    picks = hop_of(MANAGER, 0, purpose="pick", texts=["Alice"])
    ends = hop_of(MANAGER, 2, purpose="pick", texts=["DONE!"])
    assert decided(facts_of("dynamic", picks, hop_of(ALICE, 1), ends)) == End()
    says_so = hop_of(ALICE, 1, texts=["That is all. STOP"])
    config = {"termination_token": "STOP"}
    assert decided(facts_of("dynamic", picks, says_so, config=config)) == End()
    config = {"max_turns": 1}
    assert decided(facts_of("dynamic", picks, hop_of(ALICE, 1), config=config)) == End()


def test_without_its_manager_a_dynamic_group_goes_by_rotation() -> None:
    facts = facts_of("dynamic", *hops(ALICE), manager=None)
    assert decided(facts) == SelectSpeaker(BOB.agent_id, "rotation")


def test_a_swarm_goes_where_it_is_handed() -> None:
    assert asked(decided(facts_of("swarm"))) == [ALICE.agent_id]
    assert asked(decided(facts_of("swarm", last_speaker=CAROL.agent_id))) == [CAROL.agent_id]
    hands = hop_of(ALICE, 0, calls=[call_of(HAND_OVER, agent_name="Bob", message="Yours.")])
    assert decided(facts_of("swarm", hands)) == SelectSpeaker(BOB.agent_id, "member")
    assert asked(decided(facts_of("swarm", hands, next_speaker=BOB.agent_id))) == [BOB.agent_id]
    assert decided(facts_of("swarm", hands, hop_of(BOB, 1))) == End()


def test_a_hand_over_to_nobody_is_answered_once_and_then_goes_by_rotation() -> None:
    hands = hop_of(ALICE, 0, calls=[call_of(HAND_OVER, agent_name="Dave", message="")])
    told = decided(facts_of("swarm", hands))
    assert asked(told) == [ALICE.agent_id]
    assert isinstance(told, Ask)
    assert "Bob, Carol" in told.hops[0].answers[0].content
    again = hop_of(ALICE, 1, calls=hands.calls)
    assert decided(facts_of("swarm", hands, again)) == SelectSpeaker(BOB.agent_id, "rotation")


def test_a_swarm_that_hands_over_for_ever_is_stopped_by_the_hop_limit() -> None:
    to_bob = hop_of(ALICE, 0, calls=[call_of(HAND_OVER, agent_name="Bob", message="")])
    to_alice = hop_of(BOB, 1, calls=[call_of(HAND_OVER, agent_name="Alice", message="")])
    facts = facts_of("swarm", to_bob, to_alice, config={"hops_max": 2})
    assert decided(facts) == End("max_steps")


def test_a_model_picks_one_member_who_alone_answers() -> None:
    assert decided(facts_of("intelligent")) == AskModel()
    assert asked(decided(facts_of("intelligent", next_speaker=BOB.agent_id))) == [BOB.agent_id]
    assert decided(facts_of("intelligent", hop_of(BOB, 0))) == End()
    gone = hop_of(BOB, 0, status="skipped", reason="deleted")
    assert decided(facts_of("intelligent", gone)) == SelectSpeaker(CAROL.agent_id, "rotation")


def test_the_manager_of_a_sleeptime_group_answers_alone() -> None:
    assert asked(decided(facts_of("sleeptime"))) == [MANAGER.agent_id]
    assert decided(facts_of("sleeptime", hop_of(MANAGER, 0))) == End()


def test_each_addressed_member_answers_a_private_message_once() -> None:
    facts = facts_of("supervisor", members=(BOB, CAROL))
    assert asked(decide(facts, is_private=True)) == [BOB.agent_id]
    facts = facts_of("supervisor", *hops(BOB), members=(BOB, CAROL))
    assert asked(decide(facts, is_private=True)) == [CAROL.agent_id]
    facts = facts_of("supervisor", *hops(BOB, CAROL), members=(BOB, CAROL))
    assert decide(facts, is_private=True) == End()
