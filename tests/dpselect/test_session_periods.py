"""One charge that reads several periods: without one user's rows of one period, other rows of that
user may be counted.
"""

from __future__ import annotations

import json
import math
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from shell import dpselect

import accounting as acc
import dpselect as dps
from accounting.ledger import Ledger
from dpselect import events
from dpselect.session import Session

BOTH = ["2024-01", "2024-02"]
BOUNDED = dps.Sensitivity.of_counts(items_per_user=1)
EXCHANGED = dps.Sensitivity.of_counts("replace_one", 1)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A budget of epsilon 3 for each month."""
    opened = acc.Ledger.open(f"sqlite:///{tmp_path}/l.db")
    opened.create_dataset("log", acc.Budget(epsilon=3.0), "add_remove", window="month")
    return opened


def loss(mechanism: Any, sensitivity: dps.Sensitivity) -> float:
    """The largest log-ratio of one outcome between the pair: a user's item of January is kept, or
    that of February.
    """
    with_january, without = (
        dps.Scores(counts, sensitivity=sensitivity) for counts in ([1, 20], [0, 21])
    )
    laws = [mechanism.probabilities(scores) for scores in (with_january, without)]
    return max(abs(math.log(laws[0][outcome] / laws[1][outcome])) for outcome in laws[0])


def test_a_bound_over_several_periods_is_refused_at_the_price_of_one(ledger: Ledger) -> None:
    """The exact pair tells twice of what the curve of add_remove claims; nothing is charged and
    nothing drawn.
    """
    mechanism = dps.ExponentialMechanism(epsilon=1.0)
    assert loss(mechanism, BOUNDED) > 1.9 * mechanism.curve.epsilon(0.0)
    with pytest.raises(dps.errors.SensitivityMismatch, match="replace_one"):
        Session(ledger, "log", period=BOTH).select(
            mechanism, dps.Scores([3, 2], sensitivity=BOUNDED)
        )
    assert list(ledger.entries("log")) == []


def test_a_second_look_that_bounds_users_over_several_periods_is_refused(ledger: Ledger) -> None:
    """It moves the items that compete as a bound in the first one does."""
    steps = dps.DiscoverThenSelect(
        discovery=dps.LimitedDomain(k=2, kbar=2, epsilon=1.0, delta=1e-6),
        selection=dps.ExponentialMechanism(epsilon=1.0),
        candidates=2,
    )
    look = dps.SecondLook(lambda _: dps.Scores([3], sensitivity=BOUNDED), BOUNDED)
    scores = dps.Scores([3, 2], labels=["a", "b"], sensitivity=dps.Sensitivity(), second=look)
    with pytest.raises(dps.errors.SensitivityMismatch, match="are read together"):
        Session(ledger, "log", period=BOTH).select(steps, scores)


def test_a_second_look_counts_users() -> None:
    """Sums that are cut to [0, 1] state what counts do, and the first look, whole counts, hid that
    January's rows move two of them against each other.
    """
    amounts = pa.table({"who": ["u"] * 3, "where": ["a", "b", "a"], "paid": [-5.0, 1.0, 5.0]})
    how: Any = {"user": "who", "item": "where", "value": "paid", "value_clip": 1.0}
    whole = dps.Sensitivity()
    look = dps.SecondLook(lambda names: events.read(amounts, **how, within=names).scores(), whole)
    with pytest.raises(dps.errors.InvalidScores, match="It counts users"):
        look.scores(["a", "b"])


@pytest.mark.parametrize(
    ("periods", "sensitivity"),
    [(["2024-01"], BOUNDED), ("2024-01", BOUNDED), (BOTH, dps.Sensitivity())],
    ids=str,
)
def test_whole_counts_over_periods_cost_one_release(
    ledger: Ledger, periods: Any, sensitivity: Any
) -> None:
    """Within one period who is there or not is all that a neighbor changes; of users in full each
    count moves by 1, one way.
    """
    session = Session(ledger, "log", period=periods)
    session.select(
        dps.ExponentialMechanism(epsilon=1.0), dps.Scores([3, 2], sensitivity=sensitivity)
    )
    assert {total.spent.main for total in session.totals()} == {10**12}


def test_the_price_of_an_exchange_is_charged_and_covers_the_pair(ledger: Ledger) -> None:
    """A mechanism of replace_one: each month pays its epsilon, which the pair attains to 5 %."""
    mechanism = dps.ExponentialMechanism(
        epsilon=1.0, sensitivity=dps.Sensitivity(relation="replace_one")
    )
    attained = loss(mechanism, EXCHANGED)
    Session(ledger, "log", period=BOTH).select(mechanism, dps.Scores([3, 2], sensitivity=EXCHANGED))
    for month in BOTH:
        spent = ledger.total("log", month).spent.main / 1e12
        assert attained <= spent < attained / 0.95


@pytest.mark.parametrize("held", [False, True])
def test_sums_cut_to_one_are_no_whole_counts(ledger: Ledger, held: bool) -> None:
    """Without January, -5 of "a" and 1 of "b", the sum of "a" rises as that of "b" falls: twice
    what the curve claims.
    """
    amounts = {"who": ["u", "u", "u"], "where": ["a", "b", "a"], "paid": [-5.0, 1.0, 5.0]}
    whole, without = (
        pa.table(amounts),
        pa.table({name: column[2:] for name, column in amounts.items()}),
    )
    how: Any = {"user": "who", "item": "where", "value": "paid", "value_clip": 1.0}
    mechanism = dps.ExponentialMechanism(epsilon=1.0)
    with_january, february = (
        events.read(log, **how).scores(["a", "b"]) for log in (whole, without)
    )
    laws = [mechanism.probabilities(scores) for scores in (with_january, february)]
    ratios = [math.log(laws[1][place] / laws[0][place]) for place in laws[0]]
    # a range of 2, where BoundedRange(1) is charged
    assert max(ratios) - min(ratios) == pytest.approx(2 * 1.0)
    assert list(february.values - with_january.values) == [1.0, -1.0]
    with ExitStack() as stack:
        scores = (
            stack.enter_context(events.hold(whole, **how)).scores(["a", "b"])
            if held
            else with_january
        )
        assert scores.sensitivity == dps.Sensitivity()
        with pytest.raises(dps.errors.SensitivityMismatch, match="no sums"):
            Session(ledger, "log", period=BOTH).select(
                dps.PeelingTopK(k=1, noise="exponential", scale=1.0), scores
            )
    assert ledger.total("log", BOTH[0]).spent.main == 0


@pytest.mark.parametrize("items", [None, ["a", "b"]])
def test_sums_of_one_group_are_no_whole_counts(ledger: Ledger, items: list[str] | None) -> None:
    """The scores of one group say that they are sums, as those of a log without groups do."""
    log = pa.table({"who": ["u"], "where": ["a"], "city": ["x"], "paid": [1.0]})
    how: Any = {"value": "paid", "value_clip": 1.0, "groups": ["x"], "max_groups_per_user": 1}
    read = events.read(log, user="who", item="where", group="city", **how)
    scores = read.scores(items).by_group["x"]
    mechanism = dps.LimitedDomain(k=1, kbar=1, epsilon=1.0, delta=1e-6)
    assert scores.sensitivity == dps.Sensitivity()
    with pytest.raises(dps.errors.SensitivityMismatch, match="no sums"):
        Session(ledger, "log", period=BOTH).select(mechanism, scores)


def test_a_plan_over_several_periods_checks_every_draw(ledger: Ledger) -> None:
    """A schedule that was reserved for whole counts draws from no others; one of bounded users is
    not reserved.
    """
    mechanism = dps.ExponentialMechanism(epsilon=1.0)
    bounded = dps.OneshotTopK(k=1, noise="laplace", scale=2.0, sensitivity=BOUNDED)
    with pytest.raises(dps.errors.SensitivityMismatch):
        Session(ledger, "log", period=BOTH).schedule([(2, mechanism), (1, bounded)])
    assert list(ledger.entries("log")) == []
    plan = Session(ledger, "log", period=BOTH).schedule([(2, mechanism)])
    plan.select(mechanism, dps.Scores([3, 2], sensitivity=dps.Sensitivity()))
    with pytest.raises(dps.errors.SensitivityMismatch):
        plan.select(mechanism, dps.Scores([3, 2], sensitivity=BOUNDED))
    assert sum(plan.remaining.values()) == 1


@pytest.mark.parametrize(
    ("words", "relation"),
    [("", "add_remove"), ("--max-items-per-user 1", "replace_one"), ("--clip 1", "replace_one")],
)
def test_the_command_pays_for_what_it_reads(
    ledger: Ledger, tmp_path: Path, words: str, relation: str
) -> None:
    """topk over two months: the mechanism is proved for an exchange as soon as users are bounded,
    and both months pay.
    """
    log, items = tmp_path / "log.csv", tmp_path / "items.csv"
    log.write_text("who,where\n" + "".join(f"u{user},a\nu{user},b\n" for user in range(40)))
    items.write_text("where\na\nb\nc\n")
    asked = f"topk {log} --user who --item where --k 1 --epsilon 1 --domain {items} {words} --json"
    paid = f"--ledger sqlite:///{tmp_path}/l.db --dataset log --period {BOTH[0]} --period {BOTH[1]}"
    done = dpselect(asked, paid)
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert dps.Mechanism.from_json(json.dumps(told["mechanism"])).relation == relation
    assert told["ledger"]["period"] == BOTH
    spent = [ledger.total("log", month).spent.main for month in BOTH]
    assert spent[0] == spent[1]
    assert 0 < spent[0] <= 10**12


def test_whole_counts_need_scores_with_a_sensitivity(ledger: Ledger) -> None:
    """A matrix of rounds, a function that draws and runs of a best of many: nothing says that users
    are counted in full.
    """
    session, mechanism = Session(ledger, "log", period=BOTH), dps.ExponentialMechanism(epsilon=0.1)
    with pytest.raises(dps.errors.SensitivityMismatch, match="in Scores that say so"):
        session.select_many(mechanism, [[3, 2], [2, 3]])
    with pytest.raises(dps.errors.SensitivityMismatch):
        session.publish(mechanism, lambda: pytest.fail("drawn"))
    with pytest.raises(dps.errors.SensitivityMismatch):
        session.best_of(
            dps.RepeatAndSelect(base=mechanism, distribution=acc.curves.PoissonRuns(mean=2.0)),
            lambda: pytest.fail("run"),
        )
    assert list(ledger.entries("log")) == []
    Session(ledger, "log", period=BOTH[0]).select_many(mechanism, [[3, 2], [2, 3]])
