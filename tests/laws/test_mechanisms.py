"""Every mechanism under the same laws."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from case import Case
from cases import CASES, CELLS
from exact import exceeded, worst
from mechanism_laws import (
    curve_covers,
    epsilons_for,
    misfit,
    outcome,
    outcomes,
    relabeled_covers,
    some_scores,
)
from spread import spread

import accounting as acc
import dpselect as dps
from dpselect import verify
from dpselect.sampling import ExactSampler
from dpselect.verify import divergences

# About 500 tests, each with a true p-value, at 1e-10: the suite raises a false alarm with
# probability below 1.5e-7.
FALSE_ALARM = 1e-10


KINDS = {
    kind: [case for case in CASES if case.mechanism.kind == kind]
    for kind in {case.mechanism.kind: None for case in CASES}
}
# The first and the last case of each mechanism.
FAST = {cases[place] for cases in KINDS.values() for place in (0, -1)}


def _drawn_alike(case: Case) -> object:
    """What decides how a case is drawn: of what one user changes the unit alone, if that."""
    mechanism = case.mechanism
    whose = {"sensitivity", "relation", "unit"}
    return (
        mechanism.model_dump_json(exclude=whose),
        mechanism.sensitivity_bound.linf,
        case.domain,
    )


DRAWN_ONCE = list({_drawn_alike(case): case for case in CASES}.values())
# Of these a quarter of the draws in the fast run; every case draws all in the slow one. One by one
# it draws few where rows show its law: the fast run has shown that the mechanism's are alike.
DRAWN = [
    *(pytest.param(case, case.rounds // 4, 250, id=f"{case}") for case in CASES if case in FAST),
    *(
        pytest.param(
            case,
            case.rounds,
            125 if case.domain == "public" else 500,
            marks=pytest.mark.slow,
            id=f"{case}-all draws",
        )
        for case in DRAWN_ONCE
    ),
]


def _largest_box(case: Case) -> tuple[int, int]:
    return max(case.boxes, key=lambda box: (box[1] + 1) ** box[0])


def _covered(case: Case, boxes: Iterable[tuple[int, int]]) -> list[str]:
    """Ways in which the worst pair of all the boxes exceeds the curve, which is asked once."""
    mechanism, epsilons = case.mechanism, epsilons_for(case.mechanism)
    found, broken = list[verify.WorstCase](), list[str]()
    for candidates, highest in boxes:
        vectors = np.array(list(itertools.product(range(highest + 1), repeat=candidates)))
        levels = np.arange(highest + 1.0) * mechanism.sensitivity_bound.linf
        laws = divergences._laws(mechanism, vectors, case.domain, levels)
        pairs = divergences._neighbors(mechanism.sensitivity_bound, vectors, highest)
        found.append(divergences._compare(laws, *pairs, verify.ORDERS, epsilons))
        if mechanism.curve.delta0 > 0:
            broken += relabeled_covers(mechanism, laws, pairs, verify.ORDERS)
    together = verify.WorstCase(
        verify.ORDERS,
        np.max([one.rdp for one in found], axis=0),
        epsilons,
        np.max([one.delta for one in found], axis=0),
        max(one.pure_epsilon for one in found),
        sum(one.pairs for one in found),
    )
    return broken + curve_covers(mechanism, together)


@pytest.mark.parametrize("case", [*(case for case in CASES if case in FAST), *CELLS], ids=str)
def test_curve_covers_every_neighboring_pair(case: Case) -> None:
    """Exact Renyi, hockey-stick and pure divergences of all neighboring pairs of the largest box
    stay below the curve.

    Where there is a delta0, so do the Renyi divergences of the relabeled laws that the curve is
    about (Theorem A1).
    """
    assert _covered(case, [_largest_box(case)]) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [case for case in CASES if len(set(case.boxes)) > 1 or case not in FAST], ids=str
)
def test_curve_covers_every_neighboring_pair_of_all_boxes(case: Case) -> None:
    """The same on every box of every case that is not enumerated above."""
    boxes = set(case.boxes) - ({_largest_box(case)} if case in FAST else set())
    assert _covered(case, boxes) == [], boxes


@pytest.mark.parametrize("case", spread([c for c in CASES if c.tight], 5), ids=str)
def test_exponential_noise_reaches_its_pure_epsilon(case: Case) -> None:
    """With exponential noise the pure guarantee is exact: some pair reaches it within 1e-6."""
    candidates, highest = case.boxes[-1]
    reached = verify.worst_case(case.mechanism, candidates=candidates, highest=highest)
    assert reached.pure_epsilon == pytest.approx(case.mechanism.curve.pure_epsilon, abs=1e-6)


@pytest.mark.parametrize(("case", "rows", "singles"), DRAWN)
def test_select_follows_the_law(case: Case, rows: int, singles: int) -> None:
    """Frequencies of `select`, and of `select_many` on a matrix of different rows, agree with the
    exact probabilities.
    """
    mechanism, rng = case.mechanism, np.random.default_rng(20261121)
    asked = some_scores(mechanism, case.boxes[-1][0], case.domain)
    if case.values:
        asked = [
            dps.Scores(case.values, sensitivity=mechanism.sensitivity_bound, domain=case.domain)
        ]
    laws = [mechanism.probabilities(scores) for scores in asked]
    if case.values:
        assert sum(chance > 0.02 for chance in laws[0].values()) >= 3
    drawn = [
        outcome(mechanism.select(asked[-1], rng=rng), laws[-1]) for _ in range(min(singles, rows))
    ]
    assert misfit(drawn, laws[-1]) > FALSE_ALARM
    if case.domain == "public":
        matrix = np.tile(np.stack([scores.dense() for scores in asked]), (rows // len(asked), 1))
        many = mechanism.select_many(matrix, rng=rng)
        for place, law in enumerate(laws):
            assert misfit(outcomes(many[place :: len(asked)], law), law) > FALSE_ALARM


@pytest.mark.fast(6)
@pytest.mark.parametrize("kind", KINDS)
def test_releases_follow_the_law_of_simulations(kind: str) -> None:
    """What the exact sampler draws, one by one and in rows, has the exact law too."""
    case, source = KINDS[kind][0], ExactSampler(np.random.default_rng(5))
    mechanism, scores = (
        case.mechanism,
        some_scores(case.mechanism, case.boxes[-1][0], case.domain)[-1],
    )
    law = mechanism.probabilities(scores)
    assert (
        misfit([outcome(mechanism._select(scores, source), law) for _ in range(250)], law)
        > FALSE_ALARM
    )
    if case.domain == "public":
        many = mechanism._select_many(np.tile(scores.dense(), (2000, 1)), source)
        assert misfit(outcomes(many, law), law) > FALSE_ALARM


GROUPED = {
    kind: cases[-1].mechanism
    for kind, cases in KINDS.items()
    if cases[-1].mechanism.traits.value_of("groups", cases[-1].mechanism)
}


@pytest.mark.fast(4)
@pytest.mark.parametrize("kind", GROUPED)
def test_grouped_scores_have_the_law_of_the_candidates_they_stand_for(kind: str) -> None:
    """Counts of counts, those of zero included, are drawn without being expanded, and as if they
    were (Theorem X14).
    """
    mechanism, rng = GROUPED[kind], np.random.default_rng(7)
    values, copies = (
        (np.array([3, 1, 0, 3]), [1, 2, 1, 1])
        if (mechanism.most_candidates or 5) >= 5
        else (np.array([3, 1]), [1, 2])
    )
    values = values * mechanism.sensitivity_bound.linf
    grouped = dps.Scores.grouped(values, copies, sensitivity=mechanism.sensitivity_bound)
    law = mechanism.probabilities(
        dps.Scores(np.repeat(values, copies), sensitivity=mechanism.sensitivity_bound)
    )
    assert (
        misfit([outcome(mechanism.select(grouped, rng=rng), law) for _ in range(400)], law)
        > FALSE_ALARM
    )


VALUED = [
    case
    for case in (*CELLS, *CASES)
    if hasattr(case.mechanism, "cell_probabilities") and case.mechanism.releases_values
]


@pytest.mark.fast(3)
@pytest.mark.parametrize("case", VALUED, ids=str)
def test_values_follow_the_law_of_their_cells(case: Case) -> None:
    """Items, order and values fall into the cells as `cell_probabilities` says, one by one and in
    rows.
    """
    mechanism: Any = case.mechanism
    scores, rng = (
        dps.Scores(
            [3, 1, 0][: case.boxes[-1][0]],
            sensitivity=mechanism.sensitivity_bound,
            domain=case.domain,
        ),
        np.random.default_rng(3),
    )
    edges, places = np.array([0.0, 2.0, 3.0, 5.0]) * mechanism.sensitivity_bound.linf, (0, 1)
    law = mechanism.cell_probabilities(scores, edges)
    assert sum(law.values()) == pytest.approx(1, abs=1e-11)
    assert (
        misfit(
            [
                mechanism.select(scores, rng=rng).outcome.discretize(edges, places)
                for _ in range(1500)
            ],
            law,
        )
        > FALSE_ALARM
    )
    if isinstance(mechanism, dps.WithValues) and case.domain == "public":
        rows = mechanism.select_many(np.tile(scores.dense(), (3000, 1)), rng=rng)
        assert misfit([row.outcome.discretize(edges, places) for row in rows], law) > FALSE_ALARM


@pytest.mark.parametrize("kind", KINDS)
def test_laws_traits_and_json_are_true(kind: str) -> None:
    """The exact law is a probability distribution. What a mechanism declares of itself is what it
    releases: order, values, how many, and for which relation and domain. It and its curve survive
    JSON, equal and with equal hashes.
    """
    for case in KINDS[kind]:
        mechanism = case.mechanism
        for scores in some_scores(mechanism, case.boxes[-1][0], case.domain):
            law = mechanism.probabilities(scores)
            assert sum(law.values()) == pytest.approx(1, abs=1e-11), case
            assert min(law.values()) >= 0, case
        released = mechanism.select(scores, rng=np.random.default_rng(20261121))
        assert released.ordered == mechanism.ordered, case
        if not released.ordered and released.positions is not None:
            # the order of the noise does not leak
            assert list(released.positions) == sorted(released.positions), case
        assert (released.values is not None) == mechanism.releases_values, case
        assert mechanism.most_released is None or len(released) <= mechanism.most_released, case
        assert mechanism.relation in mechanism.traits.relations, case
        assert mechanism.takes_observed or case.domain == "public", case
        again = dps.Mechanism.from_json(mechanism.to_json())
        assert (again, hash(again), again.curve) == (
            mechanism,
            hash(mechanism),
            mechanism.curve,
        ), case


# -- what may influence a release, and what is refused ---------------------------------------------

READING = [case for case in CASES if case.mechanism.traits.value_of("reads", case.mechanism) == 3]


@pytest.mark.fast(10)
@pytest.mark.parametrize("case", READING, ids=str)
def test_only_the_highest_counts_matter(case: Case) -> None:
    """Whatever lies below the counts that a mechanism says it reads, absent or present, leaves law
    and seeded draws alone.
    """
    mechanism = case.mechanism
    for head in ((9, 4, 2), (3, 3, 1), (2, 2, 2), (8, 1, 1), (1, 0, 0)):
        tails = [(), (0,), (head[-1],) * 3, (0, head[-1], 0), tuple(range(head[-1] + 1))]
        scores = [
            dps.Scores(head + tail, sensitivity=mechanism.sensitivity_bound, domain=case.domain)
            for tail in tails
        ]
        laws = [mechanism.probabilities(s) for s in scores]
        assert all(law == laws[0] for law in laws[1:])
        for seed in range(6):
            draws = [mechanism.select(s, rng=np.random.default_rng(seed)).indices for s in scores]
            assert all(draw == draws[0] for draw in draws[1:])


def law_of_labels(mechanism: dps.Mechanism, counts: dict[str, int]) -> dict[Any, float]:
    """The exact law of what is released, by label where items are."""
    labels = list(counts)
    scores = dps.Scores(
        list(counts.values()),
        sensitivity=mechanism.sensitivity_bound,
        labels=labels,
        domain="observed",
    )
    law = mechanism.probabilities(scores)
    if mechanism.traits.answers == "gap":
        return law
    named: dict[Any, float] = {}
    for chosen, chance in law.items():
        items = [labels[place] for place in ((chosen,) if isinstance(chosen, int) else chosen)]
        key = frozenset(items) if isinstance(chosen, frozenset) else tuple(items)
        named[key] = named.get(key, 0.0) + chance
    return named


# The top of groups is of cells: test_histograms.py. A race has an exact law of one item:
# dpselect/mechanisms/test_racing.py has this of its draws.
OBSERVED = {
    case.mechanism.kind: case.mechanism
    for case in CASES
    if case.domain == "observed" and case.mechanism.kind not in ("top_of_groups", "racing_top_k")
}


@pytest.mark.parametrize("kind", OBSERVED)
def test_an_observed_domain_shows_labels_and_what_is_there(kind: str) -> None:
    """Neither the order of the rows nor an item of count 0 that is listed matters: ties go by
    label, and zero is not there.
    """
    mechanism = OBSERVED[kind]
    for counts in ({"a": 3, "b": 3, "c": 3}, {"a": 7, "b": 4, "c": 4, "d": 1}, {"a": 2}):
        law = law_of_labels(mechanism, counts)
        rows = {"z": 0, **dict(reversed(counts.items())), "w": 0}
        assert law_of_labels(mechanism, rows) == pytest.approx(law, rel=1e-12)


UNKNOWN = list(
    {
        case.mechanism: None
        for case in CASES
        if case.mechanism.takes_observed and case.mechanism.kind != "per_group"
    }
)


@pytest.mark.parametrize("mechanism", spread(UNKNOWN, 24), ids=str)
def test_empty_domain_and_one_user_stay_within_the_curve(mechanism: Any) -> None:
    """Nothing is released of no candidate, by a law that sums up to 1; it and that of one user's
    item are within the curve.
    """
    how = {"sensitivity": mechanism.sensitivity_bound, "domain": "observed"}
    label = dps.cells.cell("g", 0)
    nobody, one = dps.Scores([], labels=[], **how), dps.Scores([1], labels=[label], **how)
    for rng in (None, np.random.default_rng(5)):
        assert len(mechanism.select(nobody, rng=rng)) == (mechanism.traits.answers == "gap")
    laws = [mechanism.probabilities(scores) for scores in (nobody, one)]
    assert sum(laws[0].values()) == pytest.approx(1, abs=1e-9)
    assert exceeded(mechanism.curve, worst([laws], (0.0, 0.1, 0.5, 1.0, 2.0, 4.0))) == []


@pytest.mark.parametrize("kind", KINDS)
def test_scores_that_no_proof_covers_are_refused_before_a_draw(kind: str) -> None:
    """Wider users, the other relation, private candidates, utilities where 0 has a meaning, too few
    or many candidates.
    """
    mechanism = KINDS[kind][0].mechanism
    covers, size = (
        mechanism.sensitivity_bound,
        mechanism.most_candidates or max(mechanism.least_candidates, 3),
    )
    other: Any = "add_remove" if mechanism.relation == "replace_one" else "replace_one"
    wider = dps.Sensitivity(linf=2 * covers.linf, monotone=False, relation=mechanism.relation)
    refused: list[tuple[type[Exception], int, dict[str, Any]]] = [
        (dps.errors.SensitivityMismatch, size, {"sensitivity": wider}),
        (acc.RelationMismatch, size, {"sensitivity": dps.Sensitivity(relation=other)}),
    ]
    if not mechanism.takes_observed:
        refused.append((dps.errors.DomainMismatch, size, {"domain": "observed"}))
    if mechanism._counts_only:
        refused.append((dps.errors.InvalidScores, size, {"kind": "utilities"}))
        with pytest.raises(dps.errors.InvalidScores, match="negative"):
            mechanism.select_many([[3] * (size - 1) + [-1]])
    if mechanism.least_candidates > 1:
        refused.append((dps.errors.InvalidRequest, mechanism.least_candidates - 1, {}))
    if mechanism.most_candidates is not None:
        refused.append((dps.errors.InvalidRequest, size + 1, {}))
    for error, count, given in refused:
        scores = dps.Scores([3] * count, **{"sensitivity": covers, **given})
        for call in (mechanism.check, mechanism.select, mechanism.probabilities):
            with pytest.raises(error):
                call(scores)
