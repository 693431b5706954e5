"""What each path of this package takes from a budget: its whole price where it charges, and no more
than is stated where it fits.

Paths are listed by the public names and the commands, so that a new one without a case fails.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial, reduce
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import typer
from test_budget_failures import takes_a_budget

import accounting as acc
import dpselect as dps
from accounting.cost import FAILURE_UNIT, MAIN_UNIT
from accounting.ledger import Ledger
from accounting.numbers import float_up, multiple
from dpselect import pate
from dpselect.app.cli.app import app
from dpselect.app.continual.horizon import Horizon
from dpselect.app.labeling.labeling import Labeling
from dpselect.plan import (
    Grouping,
    Profile,
    TopKRequest,
    calibrate_mechanism,
    default_choice,
    default_mechanism,
    fitted,
)
from dpselect.session import Schedule

# -- paths that charge a ledger --------------------------------------------------------------------

COUNTS = dps.Scores([900, 500, 20, 3], sensitivity=dps.Sensitivity())
FEW = dps.Sensitivity.of_counts(items_per_user=3)
STABLE = dps.StableTopK(kbar=3, rho=0.01, failure_delta=1e-7)
# gaussian: half of its delta is for means
HISTOGRAM = dps.SparseHistogram(scale=8.0, delta=1e-6, sensitivity=FEW)
OBSERVED = dps.Scores([9000, 5000], labels=["zoo", "park"], sensitivity=FEW, domain="observed")
FLIP = dps.PermuteAndFlip(epsilon=0.3)
RUNS = dps.RepeatAndSelect(
    base=acc.Approximate(curve=acc.GaussianDP(mu=0.1), delta0=1e-7),
    distribution=acc.TruncatedNegativeBinomial.of_mean(2.0, eta=0.5),
    relation="add_remove",
)
HORIZON = dps.ContinualTopK(k=2, periods=2, scale=20.0, delta=1e-6)
ONE_BATCH = pate.StableVoting(rho=0.01, failure_delta=1e-7, labels=3)
LOG = pd.DataFrame(
    {"who": range(600), "where": ["zoo"] * 500 + ["park"] * 100, "paid": [1.0] * 600}
)


class Charged(NamedTuple):
    """A path that charges a session; what one passage costs, as it is charged, and under which
    relation.
    """

    charge: Callable[[dps.Session, Path], object]
    curves: list[acc.Curve]
    relation: acc.relations.Relation = "add_remove"


def _schedule(session: dps.Session, _: Path) -> None:
    kept = session.schedule([(2, STABLE), (1, FLIP)])
    kept.select(STABLE, COUNTS)
    kept.select(STABLE, COUNTS)
    with pytest.raises(dps.errors.InvalidRequest, match="no remaining run"):
        kept.select(STABLE, COUNTS)


def _labeled(session: dps.Session, folder: Path) -> None:
    """Five rounds in batches of two."""
    job = Labeling(
        session,
        ONE_BATCH,
        pate.Ballots(np.full((5, 3), 10), teachers=10),
        folder,
        key=folder.name,
        batch_size=2,
    )
    with Labeling.lock(folder):
        job.run()
    assert len(job.answers) == 5


CHARGED: dict[str, Charged] = {
    "Session.select": Charged(lambda session, _: session.select(STABLE, COUNTS), [STABLE.curve]),
    "Session.select_many": Charged(
        lambda session, _: session.select_many(STABLE, np.array([[9.0, 5, 2, 1]] * 3)),
        [3 * STABLE.curve],
    ),
    "Session.publish": Charged(
        lambda session, _: session.publish(STABLE, lambda: "drawn"), [STABLE.curve]
    ),
    "Session.resume": Charged(
        lambda session, path: session.resume(STABLE, lambda _: ("drawn", "claim"), key=path.name),
        [STABLE.curve],
    ),
    "Session.best_of": Charged(
        lambda session, _: session.best_of(RUNS, lambda: (1.0, "run")), [RUNS.curve]
    ),
    "Session.schedule": Charged(_schedule, [2 * STABLE.curve + FLIP.curve]),
    "continual.open": Charged(
        lambda session, folder: dps.continual.open(session, HORIZON, state=folder, key=folder.name),
        [HORIZON.curve],
    ),
    "continual.History.release": Charged(
        lambda session, _: dps.continual.History(HISTOGRAM, k=2, releases=2).release(
            session, OBSERVED
        ),
        [HISTOGRAM.curve],
    ),
    "dpselect pate": Charged(
        _labeled, [2 * ONE_BATCH.curve] * 2 + [ONE_BATCH.curve], "replace_one"
    ),
}
ORDER = 8.0
EARLIER = acc.ApproxDP(epsilon=1.0, delta=1e-9)


def priced(*curves: acc.Curve) -> acc.cost.Cost:
    """What charges cost at the order."""
    ample = acc.Budget(epsilon=1e3, delta=0.5, order=ORDER, failure=0.25)
    return reduce(acc.cost.Cost.plus, map(ample.filter_cost, curves))


def paid_by(
    ledger: Ledger,
    name: str,
    price: acc.cost.Cost,
    relation: acc.relations.Relation,
    main: float,
    failure: float,
) -> dps.Session:
    """A session on a new dataset of which these shares of the two parts of a price are left, after
    an earlier charge: the first one of a budget may be a plan, which is priced by the best
    accounting.
    """
    spent = priced(EARLIER)
    chance = float_up(int(price.failure * failure) + spent.failure, FAILURE_UNIT)
    terms: Any = {"delta": chance + 0.1, "order": ORDER, "failure": chance}
    waiting = 100 - multiple(acc.Budget(epsilon=100.0, **terms).capacity.main, MAIN_UNIT)
    epsilon = waiting + multiple(int(price.main * main) + spent.main, MAIN_UNIT)
    ledger.create_dataset(name, acc.Budget(epsilon=float(epsilon), **terms), relation)
    ledger.charge(name, EARLIER, relation=relation)
    return dps.Session(ledger, name)


@pytest.mark.parametrize("path", CHARGED)
def test_every_release_path_charges_its_exact_cost(path: str, tmp_path: Path) -> None:
    """Of divergence and of failure: the ledger has the price to the unit, a second passage is
    refused, and so is either part a thousandth too small, before anything is charged.
    """
    charge, curves, relation = CHARGED[path]
    price = priced(*curves)
    with Ledger.open(f"sqlite:///{tmp_path}/privacy.db") as ledger:

        def left(name: str, main: float = 1 + 1e-9, failure: float = 1 + 1e-9) -> dps.Session:
            return paid_by(ledger, name, price, relation, main, failure)

        def refused(session: dps.Session) -> None:
            before = len(list(ledger.entries(session.dataset.name)))
            with pytest.raises(acc.BudgetExceeded):
                charge(session, tmp_path / f"{session.dataset.name}-again")
            assert len(list(ledger.entries(session.dataset.name))) == before

        exact = left("exact")
        charge(exact, tmp_path / "exact")
        assert ledger.total("exact").spent.minus(priced(EARLIER)) == price
        refused(exact)
        refused(left("narrow", main=0.999))
        if price.failure:
            refused(left("certain", failure=0.999))


@pytest.mark.parametrize("part", ["main", "failure"])
def test_require_and_affordable_match_the_charge(part: str, tmp_path: Path) -> None:
    """`require` and `affordable`, both ways: five fifths of either part fit, and no sixth."""
    with Ledger.open(f"sqlite:///{tmp_path}/privacy.db") as ledger:
        session = paid_by(
            ledger,
            "visits",
            priced(STABLE.curve),
            "add_remove",
            **{"main": 7.0, "failure": 7.0, part: 5 + 1e-6},
        )
        session.require(STABLE, count=5)
        with pytest.raises(acc.BudgetExceeded):
            session.require(STABLE, count=6)
        assert (
            session.affordable(STABLE) == session.affordable(STABLE, one_by_one=True).releases == 5
        )
        session.select_many(STABLE, np.array([[9.0, 5, 2, 1]] * 4))
        assert (
            session.affordable(STABLE) == session.affordable(STABLE, one_by_one=True).releases == 1
        )


STATED: dict[str, tuple[acc.Budget, dict[str, Any]]] = {
    "order": (
        acc.Budget(epsilon=1.0, delta=1e-6),
        {"epsilon": 0.25, "delta": 2.5e-7, "mechanism": "limited_domain"},
    ),
    "inf": (acc.Budget(epsilon=1.0, delta=1e-6, order="inf"), {"epsilon": 0.25, "delta": 2.5e-7}),
    "gaussian": (
        acc.Budget(epsilon=1.0, delta=1e-6, order="gaussian"),
        {"epsilon": 0.25, "delta": 2.5e-7, "mechanism": "limited_domain"},
    ),
    "rho": (acc.Budget(rho=0.1, delta=1e-6), {"rho": 0.025, "delta": 2.5e-7}),
    # Less than any usual part of delta, so that the failure is what the share leaves.
    "failure": (
        acc.Budget(epsilon=1.0, delta=1e-6, failure=3e-7),
        {"epsilon": 0.25, "delta": 2.5e-7, "mechanism": "limited_domain"},
    ),
}


@pytest.mark.parametrize("form", STATED)
def test_topk_takes_the_share_that_it_states_of_both_parts(form: str, tmp_path: Path) -> None:
    """A quarter of divergence and of failure, of every form of budget."""
    budget, stated = STATED[form]
    with Ledger.open(f"sqlite:///{tmp_path}/privacy.db") as ledger:
        ledger.create_dataset("visits", budget, "add_remove")
        dps.topk(LOG, user="who", item="where", k=1, ledger=ledger, dataset="visits", **stated)
        shares = [
            part / of
            for part, of in zip(ledger.total("visits").spent, budget.capacity, strict=True)
        ]
        assert max(shares) <= 0.25
        assert min(shares) > (0.24 if form == "failure" else 0.2499)
        assert max(shares) > 0.2499


# -- paths that find what a budget pays for --------------------------------------------------------

REQUEST = TopKRequest(k=3)
LOOK = Profile.zipf(1.0, items=200, users=5000)
MODEL = pate.VotesModel(teachers=30, labels=4, votes_per_item=1, agreement=0.8)
Curves = list[acc.Curve]


def _planned(budget: acc.Budget, **more: Any) -> Curves:
    return [dps.plan(budget, 3, profile=LOOK, mechanism="canonical_top_k", **more).curve]


def _asked(budget: acc.Budget, **more: Any) -> Curves:
    return [
        dps.topk(
            LOG, user="who", item="where", k=1, epsilon=budget.epsilon, delta=budget.delta, **more
        ).mechanism.curve
    ]


def _stable(budget: acc.Budget) -> Callable[[float], dps.Mechanism]:
    return lambda rho: dps.StableTopK(kbar=3, rho=rho, failure_delta=budget.delta / 2)


FITTED: dict[str, Callable[[acc.Budget], Curves]] = {
    "plan.calibrate_mechanism": lambda budget: [calibrate_mechanism(_stable(budget), budget).curve],
    "plan.fitted": lambda budget: [fitted("limited_domain", budget, REQUEST).curve],
    "plan.default_mechanism": lambda budget: [default_mechanism(budget, REQUEST).curve],
    "plan.default_choice": lambda budget: [default_choice(budget, REQUEST).mechanism.curve],
    "plan.default_mechanism of groups": lambda budget: [
        default_mechanism(budget, REQUEST, kind="limited_domain", groups=Grouping(2)).curve
    ],
    "plan.default_choice of groups": lambda budget: [
        default_choice(budget, REQUEST, groups=Grouping(2)).mechanism.curve
    ],
    "plan": _planned,
    "plan of groups": partial(_planned, groups=3, max_groups_per_user=2),
    "plan of a series": lambda budget: [
        dps.plan(budget, 2, profile=LOOK, periods=2, cells=10).mechanism.curve
    ],
    "ContinualTopK.fitted": lambda budget: [dps.ContinualTopK.fitted(budget, k=2, periods=3).curve],
    "plan.calibrate_mechanism of releases": lambda budget: [
        20
        * calibrate_mechanism(
            lambda sigma: pate.GNMax(sigma=sigma, labels=3), budget, releases=20
        ).curve
    ],
    "pate.fitted": lambda budget: [
        20 * pate.fitted("stable_voting", budget, rounds=20, labels=3).curve
    ],
    "pate.plan_votes": lambda budget: [
        10 * one.mechanism.curve for one in pate.plan_votes(MODEL, budget, rounds=10).ranked
    ],
    "topk": _asked,
    "topk with counts": partial(_asked, with_counts=True),
}


_LONG = {
    "plan.default_mechanism of groups",
    "plan of groups",
    "pate.plan_votes",
    "topk with counts",
}


@pytest.mark.parametrize(
    "path", [pytest.param(name, marks=[pytest.mark.slow] * (name in _LONG)) for name in FITTED]
)
def test_fitted_release_spends_both_budget_parts(path: str) -> None:
    """All of it is admitted; with a twentieth less of epsilon, or of delta, not all."""
    budget = acc.Budget(epsilon=1.0, delta=1e-6)
    curves = FITTED[path](budget)
    assert all(map(budget.admits, curves))
    assert not all(map(acc.Budget(epsilon=0.95, delta=1e-6).admits, curves))
    # rho adds up, or a round is much of the budget
    less = 0.5 if path == "plan of groups" else 0.95
    assert not all(map(acc.Budget(epsilon=1.0, delta=less * 1e-6).admits, curves))


# -- all paths -------------------------------------------------------------------------------------

_OF_LEDGERS = [
    "init",
    "charge",
    "quota",
    "retire",
    "void",
    "show",
    "report",
    "verify",
    "heads",
    "export",
    "import",
]
# What commands charge and fit by: the paths above. The others spend nothing, or what the package of
# accounts holds to.
COMMANDS: dict[str, set[str]] = {
    "topk": {"topk"},
    "continual start": {"ContinualTopK.fitted", "continual.open"},
    "continual run": {"ContinualTopK.fitted", "continual.open"},
    "plan": {"plan", "plan of a series", "pate.plan_votes"},
    "demo": {"topk"},
    "pate": {"pate.fitted", "dpselect pate"},
    "ledger affordable": {"Session.affordable"},
    # of a horizon that is paid for
    **{f"continual {verb}": set() for verb in ("close", "show", "recharge")},
    **{f"ledger {verb}": set() for verb in _OF_LEDGERS},
}
_ASKED = {"Session.require", "Session.affordable"}
# They say what something costs or is, or draw what has been paid for: `Schedule` above, a horizon
# in test_horizon.py.
_NO_PATH = {
    *(
        "plan.TopKPlan",
        "plan.PlannedMechanism",  # states its cost
        "plan.HorizonPlan",
        *("plan.plan_releases", "plan.plan_horizon"),  # of what is fitted already
        "plan.TopKRequest",
        "Profile.in_group",
        "LargeMargin.needed_lead",
        "LargeMargin.error_bound",
        "Answer",
    ),
    "pate.VotingPlan",
    "pate.DataDependentPrivacy.expose_private_epsilon",
    *(
        "Session",
        "Session.open",
        "Session.ledger",
        "Session.dataset",
        "Session.charge_options",
        "Session.charge_options_of",
        "Session.totals",
        "Session.require_new",
        "continual.Horizon",
    ),
    "plan.Grouping.every",  # asked by default_choice
    *(
        f"continual.Horizon.{name}"
        for name in (
            "key",
            "state",
            "close",
            "rehearse",
            "releases",
            "count_closed",
            "periods_left",
            "left",
        )
    ),
    # what their commands do, above
    *(f"continual.{name}" for name in ("start", "close", "show", "recharge", "run")),
    "pate.label",
    *(f"Schedule.{name}" for name in ("key", "remaining", "select", "void")),
}
_WORDS = frozenset(
    {
        "epsilon",
        "delta",
        "rho",
        "budget",
        "ledger",
        "dataset",
        "session",
        "share",
        "charge",
        "failure",
        "cost",
    }
)


def _public() -> Iterator[tuple[str, object]]:
    """Public functions and classes, and what these define; a mechanism's own epsilon is the matter
    of other laws.
    """
    seen = set[object]()
    for package in (
        "dpselect",
        *(f"dpselect.{part}" for part in ("continual", "events", "pate", "plan", "ranking")),
    ):
        module, start = import_module(package), package.removeprefix("dpselect").removeprefix(".")
        for name in module.__all__:
            made: Any = getattr(module, name)
            if not (inspect.isclass(made) or inspect.isfunction(made)) or made in seen:
                continue
            seen.add(made)
            label = f"{start}.{name}".removeprefix(".")
            if not isinstance(made, type):
                yield label, made
                continue
            if not issubclass(made, dps.Mechanism):
                yield label, made
            yield from _members(label, made)


def _members(label: str, kind: type) -> Iterator[tuple[str, object]]:
    return (
        (f"{label}.{name}", member)
        for name, member in vars(kind).items()
        if not name.startswith("_")
    )


def test_every_path_has_a_case() -> None:
    """All that a session, a schedule and a horizon do, and every public function and method that
    takes what could be spent.
    """
    found = {
        label
        for label, member in _public()
        if takes_a_budget(member, _WORDS, ("Budget", "Ledger", "Session"))
    }
    for label, kind in {
        "Session": dps.Session,
        "Schedule": Schedule,
        "continual.Horizon": Horizon,
    }.items():
        found |= {name for name, _ in _members(label, kind)}
    paths = {
        name.split(" ")[0] for name in (*CHARGED, *FITTED) if not name.startswith("dpselect ")
    } | _ASKED
    assert found == paths | _NO_PATH


def test_every_command_that_takes_a_budget_has_a_case() -> None:
    """A new command or option that spends a budget needs a case here."""
    found = set()

    def walk(command: Any, name: str) -> None:
        for verb in command.list_commands(None) if hasattr(command, "list_commands") else ():
            walk(command.get_command(None, verb), f"{name} {verb}".strip())
        if _WORDS & {option.name for option in command.params}:
            found.add(name)

    walk(typer.main.get_command(app), "")
    assert found == set(COMMANDS)
    assert set().union(*COMMANDS.values()) <= {*CHARGED, *FITTED, *_ASKED}
