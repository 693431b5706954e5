"""Planted edits of the library, each with the tests that must fail: constants a twentieth too small, and safeguards taken out.

Grown with every repair: an edit that would bring the fault back, and the law that notices.
"""

from __future__ import annotations

from typing import NamedTuple


class Edit(NamedTuple):
    """Replace `old`, which occurs once in `file`, by `new`; then some of `tests` must fail."""

    file: str
    old: str
    new: str
    tests: str

    def __str__(self) -> str:
        return f"{self.file}: {self.new.strip()[:60]}"


CONSTANTS = "tests/laws/test_exact_constants.py"
KILLED = "tests/accounting/ledger"
SETTLED = f"{KILLED}/test_settling.py"
BEST = "tests/laws/test_repeat_and_select.py"
SUMS = "tests/laws/test_sums.py::test_one_user_changes_what_the_sensitivity_says"
GAUSSIAN, DELTAS = "tests/laws/test_gaussian_filter.py", "tests/laws/test_delta_side.py"
ONE_BY_ONE = f"{GAUSSIAN}::test_gaussians_one_by_one_cost_what_their_plan_costs"
PAID = f"{DELTAS}::test_failures_are_paid_for_to_the_unit"
OF_A_PAIR = "test_delta_is_that_of_a_pair_or_its_closed_form"
STABLE = "dpselect/mechanisms/stability/stable_top_k.py"
STABLE_PRICES = f"{CONSTANTS}::test_the_prices_of_stable_sets_are_their_closed_forms"
STRATEGY, CONTINUAL = "dpselect/continual/strategy.py", "dpselect/continual/continual_top_k.py"
HORIZON = "tests/laws/test_continual.py"
MEMORY = "tests/dpselect/continual/test_memory.py"
MEANS = "tests/dpselect/continual/test_averages.py::test_means_and_rates_are_those_of_a_direct_sum"
TIES = f"{HORIZON}::test_equal_scores_are_released_in_the_order_of_labels"
HORIZON_NORM, LONE = (
    f"{HORIZON}::test_the_curve_is_that_of_the_norm",
    f"{HORIZON}::test_lone_items_pass_with_the_chance_that_is_charged",
)
SUCCEEDED = f"{KILLED}/test_signatures.py::test_a_key_is_followed_by_another"
GIVEN_BACK = f"{SETTLED}::test_a_later_version_gives_back_less_than_was_put_in"
BREAKS_OFF = f"{KILLED}/test_export.py::test_a_line_that_is_missing_is_found"
EPSILON_SO_FAR = f"{KILLED}/test_report.py::test_the_epsilon_so_far_is_rounded_up_and_what_is_left_down"
REPLAYED_CHOICES = "tests/dpselect/continual/test_horizon.py::test_the_choices_of_a_replay_follow_its_salt_and_the_period"
EDITS = [
    Edit(
        "dpselect/continual/state.py",
        "np.flatnonzero(used < self.meta.mechanism.users.cells)",
        "np.flatnonzero(used < self.meta.mechanism.users.cells - 1)",
        f"{HORIZON}::test_pairs_of_users_who_have_used_their_cells_are_forgotten",
    ),
    Edit("accounting/ledger/heads.py", "until is None or at < until", "until is None or at <= until", SUCCEEDED),
    Edit("accounting/ledger/model.py", "part - 1 - of // SLACK", "part + 1 + of // SLACK", GIVEN_BACK),
    Edit("accounting/ledger/model.py", "part - 1 - of // SLACK", "part", GIVEN_BACK),
    Edit(
        "accounting/curves/profile_table.py",
        "            return self.delta0\n        place",
        "            return 0.0\n        place",
        f"{DELTAS}::{OF_A_PAIR}",
    ),
    Edit("accounting/ledger/export.py", 'if self._stage != "end":', 'if self._stage == "":', BREAKS_OFF),
    Edit("accounting/page/dataset.py", "≤ {rounded_up(also.epsilon)}", "≤ {rounded_down(also.epsilon)}", EPSILON_SO_FAR),
    Edit("dpselect/continual/declared.py", '"{salt}/{period}"', '"{period}"', REPLAYED_CHOICES),
    Edit("dpselect/continual/declared.py", '"{salt}/{period}"', '"{salt}"', REPLAYED_CHOICES),
    Edit(
        "dpselect/sampling/exact.py",
        ">> np.uint64(64 - level)) == 0 if level else True",
        ">> np.uint64(64 - level)) != 0 if level else True",
        "tests/dpselect/sampling/test_refinement.py::test_a_candidate_that_is_revealed_twice_has_the_law_of_one_draw",
    ),
    Edit(
        "accounting/curves/repeat_and_select.py",
        "self.distribution.mean * base * _UP",
        "0.95 * self.distribution.mean * base",
        f"{BEST}::test_the_profile_made_of_gaussian_runs_is_its_formula_and_above_one_pair",
    ),
    Edit(
        "accounting/curves/repeat_and_select.py",
        "(1 + self.eta) * high * _UP",
        "(1 + self.eta) * 0.95 * high",
        f"{BEST}::test_the_profile_made_of_gaussian_runs_is_its_formula_and_above_one_pair",
    ),
    Edit(
        "accounting/curves/repeat_and_select.py",
        "self.mean * (base.profile(0.0) or 0.0)",
        "0.95 * self.mean * (base.profile(0.0) or 0.0)",
        f"{BEST}::test_a_profile_of_poisson_runs_is_its_formula",
    ),
    Edit("accounting/curves/closed_form.py", "return float_up(1, times_up(", "return 0.95 * float_up(1, times_up(", ONE_BY_ONE),
    Edit(
        "accounting/budget/budget.py",
        "_DOWN.multiply(Decimal(low), Decimal(low))",
        "_DOWN.multiply(Decimal(low), Decimal(1.05 * low))",
        ONE_BY_ONE,
    ),
    Edit(
        "accounting/budget/budget.py",
        "float_down(self.conversion_delta))",
        "1.05 * float_down(self.conversion_delta))",
        ONE_BY_ONE,
    ),
    Edit(
        "accounting/conversion/gaussian_cover.py",
        "return 4 * z * z * _OUTWARD",
        "return 3.8 * z * z",
        f"{GAUSSIAN}::test_a_pair_enters_at_the_least_gaussian_above_it",
    ),
    Edit(
        "accounting/curves/closed_form.py",
        "return pure_mu_squared(",
        "return 0.95 * pure_mu_squared(",
        f"{GAUSSIAN}::test_bounded_range_enters_at_the_least_gaussian_above_all_its_pairs",
    ),
    Edit(
        "accounting/curves/composed.py",
        "decimal_sum((count, curve.mu_squared)",
        "0.95 * decimal_sum((count, curve.mu_squared)",
        f"{GAUSSIAN}::test_settling_gives_back_mu_squared",
    ),
    Edit(
        "accounting/budget/budget.py",
        "Decimal(_most_releases(self))",
        "Decimal(_most_releases(self) + 1)",
        f"{GAUSSIAN}::test_identical_releases_one_by_one_are_a_plan",
    ),
    Edit(
        "accounting/budget/budget.py",
        "self.release is not None or price is None",
        "price is None",
        f"{GAUSSIAN}::test_identical_releases_one_by_one_are_a_plan",
    ),
    Edit(
        "accounting/budget/budget.py",
        " and curve.failure <= release.failure",
        " and 0.95 * curve.failure <= release.failure",
        f"{GAUSSIAN}::test_what_counts_as_a_release",
    ),
    Edit(
        "accounting/budget/budget.py",
        "curve.added <= release.added",
        "0.95 * curve.added <= release.added",
        f"{GAUSSIAN}::test_what_counts_as_a_release",
    ),
    Edit(
        "accounting/budget/remaining.py",
        "return replace(found, epsilon=None) if whole else found",
        "return found",
        f"{GAUSSIAN}::test_no_epsilon_is_stated_after_a_plan_that_another_route_admitted",
    ),
    Edit(
        "accounting/budget/budget.py",
        "total.failure <= self.capacity.failure",
        "total.failure <= 1.05 * self.capacity.failure",
        PAID,
    ),
    Edit(
        "accounting/budget/budget.py", "rounded_down(exact(failure or 0.0)", "rounded_down(exact(1.05 * (failure or 0.0))", PAID
    ),
    Edit(
        "accounting/budget/budget.py",
        "total.failure > self.capacity.failure",
        "total.failure > 1.05 * self.capacity.failure",
        PAID,
    ),
    Edit(
        "accounting/budget/filter.py",
        "if total.failure > self._failure:",
        "if total.failure > 1.05 * self._failure:",
        f"{DELTAS}::test_an_odometer_pays_for_failures_to_the_unit",
    ),
    Edit(
        "accounting/curves/closed_form.py",
        "min(1.0, self.candidates * one)",
        "min(1.0, 0.95 * self.candidates * one)",
        f"{DELTAS}::test_the_profile_of_a_gaussian_maximum_is_its_union_bound",
    ),
    Edit(
        "accounting/curves/closed_form.py",
        "Hull(((float(self.candidates),",
        "Hull(((0.95 * self.candidates,",
        f"{DELTAS}::test_the_profile_of_a_gaussian_maximum_is_its_union_bound",
    ),
    Edit(
        "dpselect/pate/smooth_release.py",
        "math.nextafter(cost + self._rdp_at(a), math.inf)",
        "cost",
        f"{DELTAS}::test_a_tested_release_pays_for_the_release_and_the_labels",
    ),
    Edit(
        "accounting/conversion/adaptive_composition.py",
        "np.where(upper > 0, (upper + plan.added)",
        "np.where(upper > 0, (0.95 * upper + plan.added)",
        f"{DELTAS}::test_both_bounds_of_delta_hold_the_truth_between_them",
    ),
    Edit(
        "accounting/conversion/adaptive_composition.py",
        "np.where(lower > 0, (lower + plan.added)",
        "np.where(lower > 0, (1.05 * upper + plan.added)",
        f"{DELTAS}::test_both_bounds_of_delta_hold_the_truth_between_them",
    ),
    Edit(
        "dpselect/pate/smooth_release.py",
        "round(teachers**0.65 / 5)",
        "round(teachers**0.63 / 5)",
        "tests/dpselect/pate/data_dependent/test_release.py::test_an_order_is_picked_by_the_size_of_the_ensemble",
    ),
    Edit(
        "dpselect/pate/outlook.py",
        "-min(1.0, (1 - spread) *",
        "-min(1.0, 0.8 * (1 - spread) *",
        "tests/dpselect/pate/test_outlook.py::test_the_spread_of_ballots_is_the_stated_one",
    ),
    Edit(
        "dpselect/pate/budgets.py",
        "acc.BoundedRange(epsilon=2 * math.sqrt(mechanism.rho))",
        "acc.BoundedRange(epsilon=1.9 * math.sqrt(mechanism.rho))",
        f"{DELTAS}::test_the_adaptive_programme_prices_a_round_as_its_two_steps",
    ),
    Edit(
        "dpselect/pate/budgets.py",
        "delta0=mechanism.failure_delta)",
        "delta0=0.95 * mechanism.failure_delta)",
        f"{DELTAS}::test_the_adaptive_programme_prices_a_round_as_its_two_steps",
    ),
    Edit("dpselect/sensitivity.py", "cls(linf=fraction_up(most), ", "cls(linf=0.95 * fraction_up(most), ", SUMS),
    Edit(
        "dpselect/sensitivity.py",
        "cls(linf=fraction_up(spread), l0=2 * items",
        "cls(linf=0.95 * fraction_up(spread), l0=2 * items",
        SUMS,
    ),
    Edit("dpselect/sensitivity.py", "max(spread**2, 2 * most**2)", "max(spread**2, Fraction(9, 5) * most**2)", SUMS),
    Edit("dpselect/sensitivity.py", "l1=fraction_up(2 * items * most)", "l1=fraction_up(1.9 * items * most)", SUMS),
    Edit(
        "dpselect/events/contributions.py",
        "least({math.floor(high)}, {nearest})",
        "least({math.ceil(high)}, {nearest})",
        "tests/dpselect/events/test_amounts.py::test_sums_are_those_of_the_definition",
    ),
    Edit(
        "dpselect/mechanisms/noise_curves.py",
        "min(l0, candidates // 2)",
        "min(l0, candidates // 3)",
        "tests/laws/test_mutants_prices.py::test_a_gaussian_price_is_its_closed_form",
    ),
    Edit(
        "dpselect/mechanisms/queries/above_threshold.py",
        "math.sqrt(changed) * ratio_up",
        "math.sqrt(0.9 * changed) * ratio_up",
        "tests/laws/test_mutants_prices.py::test_a_gaussian_threshold_costs_its_closed_form",
    ),
    Edit(
        "dpselect/mechanisms/noise_curves.py",
        "parts: list[Curve] = [int(whole) * LaplaceDP",
        "parts: list[Curve] = [max(1, int(whole) - 1) * LaplaceDP",
        "tests/laws/test_mutants_prices.py::test_few_answers_of_a_user_cost_that_many_laplace_draws",
    ),
    Edit(
        "dpselect/mechanisms/noise_curves.py",
        "LaplaceDP(epsilon=ratio_up(fraction_up(rest), scale))",
        "LaplaceDP(epsilon=0.9 * ratio_up(fraction_up(rest), scale))",
        "tests/laws/test_histogram_vectors.py::test_a_laplace_vector_is_attained",
    ),
    Edit(
        "dpselect/mechanisms/queries/above_threshold.py",
        "alone=alone if alone",
        "alone=0.95 * alone if alone",
        "tests/laws/test_sparse_vector_proofs.py::test_the_alone_shift_of_a_threshold_is_what_one_answer_moves",
    ),
    Edit(
        "dpselect/mechanisms/stability/stability_test.py",
        "failure = 2 * curve.delta0",
        "failure = 1.9 * curve.delta0",
        "tests/laws/test_per_group.py::test_half_the_price_is_reached_and_so_are_both_failures",
    ),
    Edit(
        "dpselect/mechanisms/combine/with_values.py",
        "return fraction_up(items *",
        "return fraction_up(Fraction(19, 20) * items *",
        "tests/laws/test_second_counts.py::test_what_a_clip_takes_away_is_bounded",
    ),
    Edit(
        "dpselect/choose/counts.py",
        "unit * found.most_lost / part**power",
        "unit * found.most_lost / (2 * part) ** power",
        "tests/laws/test_second_counts.py::test_the_price_of_counts_bounds_every_clip",
    ),
    Edit(
        "dpselect/choose/counts.py",
        "ratio = ratio_up(",
        "ratio = 0.95 * ratio_up(",
        "tests/laws/test_second_counts.py::test_the_price_of_counts_bounds_every_clip",
    ),
    Edit(
        "dpselect/mechanisms/combine/with_values.py",
        "+ 2 * self._lost_price()",
        "+ self._lost_price()",
        "tests/laws/test_per_group.py::test_what_is_not_halved_pays_for_both_users",
    ),
    Edit(
        "dpselect/mechanisms/noise_curves.py",
        "else 2 * vector(noise",
        "else vector(noise",
        "tests/laws/test_per_group.py::test_values_in_groups_cost_what_the_worst_two_users_move",
    ),
    Edit(
        "dpselect/mechanisms/noise_curves.py",
        "tighter(2 * whole, centred",
        "tighter(whole, centred",
        "tests/laws/test_per_group.py::test_what_is_not_halved_pays_for_both_users",
    ),
    Edit(
        "dpselect/mechanisms/combine/per_group.py",
        " if self.shares else None",
        "",
        "tests/laws/test_per_group.py::test_a_replaced_user_may_be_seen_in_twice_as_many_groups",
    ),
    Edit(
        "dpselect/mechanisms/unknown/sparse_histogram.py",
        "math.nextafter(self.floor + hiding, math.inf)",
        "math.nextafter(0.95 * self.floor + hiding, math.inf)",
        "tests/laws/test_histograms.py::test_what_few_users_touch_is_never_shown_and_the_last_one_of_enough_hides",
    ),
    Edit(
        "dpselect/mechanisms/unknown/sparse_histogram.py",
        "listed=matrix > self.floor",
        "listed=matrix > 0",
        "tests/laws/test_histograms.py::test_what_few_users_touch_is_never_shown_and_the_last_one_of_enough_hides",
    ),
    Edit(
        "dpselect/mechanisms/unknown/top_stable.py",
        "self.k * BoundedRange(epsilon=self.epsilon_em)",
        "BoundedRange(epsilon=self.epsilon_em)",
        "tests/laws/test_sparse_vector_proofs.py::test_every_pick_of_a_larger_stable_set_is_paid_for",
    ),
    Edit(
        "dpselect/choose/quantile.py",
        "places = np.floor(",
        "places = np.rint(",
        "tests/laws/test_quantile.py::test_a_number_belongs_to_the_last_point_that_is_not_above_it",
    ),
    Edit(
        "dpselect/mechanisms/noise_curves.py",
        "raised = min(l0, candidates // 2)\n    return raised * (1 - Fraction(raised, candidates))",
        "raised = min(l0, candidates // 2)\n    return Fraction(9, 10) * raised * (1 - Fraction(raised, candidates))",
        "tests/laws/test_pate.py::test_a_teacher_who_comes_moves_the_centred_votes_only",
    ),
    Edit(
        "dpselect/mechanisms/queries/stable_queries.py",
        "alone=self.epsilon2 / 2",
        "alone=0.95 * self.epsilon2 / 2",
        "tests/laws/test_sparse_vector_proofs.py::test_the_alone_shift_of_a_threshold_is_what_one_answer_moves",
    ),
    Edit(
        "dpselect/events/contributions.py",
        "squares = math.floor(",
        "squares = math.ceil(",
        "tests/dpselect/events/test_clipping.py::test_weights_of_any_number_of_items_stay_within_the_clip",
    ),
    Edit(
        "dpselect/events/counting.py",
        " AND (i - {low}) % {step} = 0",
        "",
        "tests/dpselect/events/test_held.py::test_untouched_candidates_are_drawn_uniformly",
    ),
    Edit(
        "dpselect/events/held.py",
        "first.traits.ranks_counts and ",
        "",
        "tests/dpselect/events/test_held.py::test_quantiles_of_held_counts_are_refused",
    ),
    Edit(
        "accounting/interop.py",
        "GaussianDP.of_rho(curve.rho).mu",
        "0.97 * GaussianDP.of_rho(curve.rho).mu",
        f"{CONSTANTS}::test_a_composition_of_gaussians_is_sampled_as_one_rounded_up",
    ),
    Edit(
        "accounting/interop.py",
        "math.nextafter(rate * delta, 1.0)",
        "math.nextafter(rate * delta, 0.0)",
        f"{CONSTANTS}::test_a_sampled_delta_is_rounded_up",
    ),
    Edit(
        "accounting/budget/budget.py",
        "return _PRECISE.subtract(_GUARD, price)",
        "return _PRECISE.subtract(_GUARD, price) * Decimal('0.95')",
        f"{CONSTANTS}::test_waiting_for_all_moments_costs_its_closed_form",
    ),
    Edit(
        "accounting/ledger/model.py",
        "SLACK = 10**9",
        "SLACK = 20",
        f"{CONSTANTS}::test_an_entry_a_millionth_too_cheap_is_found",
    ),
    Edit(
        "accounting/ledger/store.py",
        'cursor.execute("SET synchronous_commit = on")',
        "pass",
        f"{KILLED}/test_failures.py::test_charges_wait_for_the_disk",
    ),
    Edit(
        "dpselect/mechanisms/noisy_max.py",
        "(epsilon / (4 * ratio)) ** 2",
        "(epsilon / (3.8 * ratio)) ** 2",
        f"{CONSTANTS}::test_the_family_of_one_shot_laplace_is_its_closed_form",
    ),
    Edit(
        "dpselect/mechanisms/noisy_max.py",
        "(2 + width) / 4",
        "(2 + width) / 4.2",
        f"{CONSTANTS}::test_the_chance_of_the_true_set_is_its_closed_form",
    ),
    Edit(
        "dpselect/mechanisms/unknown/limited_domain.py",
        "touched if self.l0 is None else np.minimum(self.l0, touched)",
        "touched",
        f"{CONSTANTS}::test_limited_domain_prefers_by_what_one_user_can_touch",
    ),
    Edit(
        "dpselect/pate/ballots.py",
        "<= votes * self.teachers",
        "<= votes * self.teachers + self.teachers",
        f"{CONSTANTS}::test_counts_of_one_vote_more_than_the_teachers_have_are_refused",
    ),
    Edit(
        "dpselect/pate/ballots.py",
        "fits = int(self._tally.most.max()) <= votes",
        "fits = int(self._tally.most.max()) <= votes + 1",
        f"{CONSTANTS}::test_ballots_of_one_vote_more_than_configured_are_refused",
    ),
    Edit(
        "dpselect/events/engine.py",
        '"autoload_known_extensions": False',
        '"autoload_known_extensions": True',
        f"{CONSTANTS}::test_the_reader_loads_and_fetches_no_extension",
    ),
    Edit(
        "accounting/ledger/ledger.py",
        "asked = (request.action, item.count, periods,",
        "asked = (request.action, item.count, tuple(entry.period for entry in opening),",
        f"{KILLED}/test_periods.py::test_a_retry_is_of_the_same_periods_and_relation",
    ),
    Edit(
        "dpselect/answers/question.py",
        "sensitivity=Sensitivity.of_counts(question.relation, question.reading.max_items_per_user),",
        "sensitivity=Sensitivity.of_counts('add_remove', question.reading.max_items_per_user),",
        "tests/dpselect/cli/topk/test_topk.py::test_the_relation_reaches_the_mechanism",
    ),
    Edit(
        "dpselect/answers/question.py",
        "return Sensitivity.of_counts(question.relation, reading.max_items_per_user)",
        "return Sensitivity.of_counts('add_remove', reading.max_items_per_user)",
        "tests/dpselect/cli/topk/test_topk.py::test_the_relation_reaches_the_mechanism",
    ),
    Edit(
        "dpselect/sampling/base.py",
        "while len(late := np.flatnonzero(words > last)):",
        "while len(late := np.flatnonzero(words < 0)):",
        f"{CONSTANTS}::test_integers_below_a_bound_reject_the_words_that_do_not_split_evenly",
    ),
    Edit(
        "dpselect/sampling/base.py",
        "if (np.diff(keys[order]) != 0).all():",
        "if True:",
        f"{CONSTANTS}::test_a_subset_with_tied_keys_is_drawn_again",
    ),
    Edit(
        "accounting/curves/repeat_and_select.py",
        "return (epsilon + (1 + self.eta) * self._gain(epsilon)) * _UP",
        "return (epsilon + (1 + self.eta) * self._gain(epsilon)) * 0.95",
        f"{BEST}::test_the_pure_price_is_attained",
    ),
    Edit(
        "accounting/curves/repeat_and_select.py",
        "epsilon + self.mean * math.tanh(epsilon / 2)",
        "epsilon + 0.95 * self.mean * math.tanh(epsilon / 2)",
        f"{BEST}::test_the_pure_price_is_attained",
    ),
    Edit(
        "accounting/curves/repeat_and_select.py",
        "part * (a - ratio * less) + more + pad",
        "part * (a - ratio * less) + 0.95 * more + pad",
        f"{BEST}::test_many_pure_runs_cost_little_more_than_one_at_small_orders",
    ),
    Edit(
        "accounting/curves/repeat_and_select.py",
        "less = b * (1 + self.eta) * (1 + rest) / (1 + power)",
        "less = 1.0005 * b * (1 + self.eta) * (1 + rest) / (1 + power)",
        f"{BEST}::test_many_pure_runs_cost_little_more_than_one_at_small_orders",
    ),
    Edit(
        "accounting/curves/repeat_and_select.py",
        "excess = part * (a - b - chord) + chord",
        "excess = part * (a - b - chord) + 0.95 * chord",
        f"{BEST}::test_many_pure_runs_cost_little_more_than_one_at_small_orders",
    ),
    Edit(
        "accounting/curves/repeat_and_select.py",
        "return (1 + self.eta) * min(",
        "return (0.95 + self.eta) * min(",
        f"{BEST}::test_the_price_is_that_of_dp_accounting",
    ),
    Edit(
        "accounting/curves/repeat_and_select.py",
        "self.shift(base) + math.log(self.mean * _UP) / (orders - 1)",
        "self.shift(base) + 0.95 * math.log(self.mean * _UP) / (orders - 1)",
        f"{BEST}::test_the_price_is_that_of_dp_accounting",
    ),
    Edit(
        "accounting/curves/repeat_and_select.py",
        "total = np.logaddexp(-self.mean, spent + log)",
        "total = spent + log",
        f"{BEST}::test_a_poisson_price_is_that_of_dp_accounting_and_the_chance_of_no_run",
    ),
    Edit(
        "accounting/curves/repeat_and_select.py",
        "base._rdp(orders) + self.mean * np.array",
        "base._rdp(orders) + 0.95 * self.mean * np.array",
        f"{BEST}::test_a_poisson_price_is_its_formula",
    ),
    Edit(
        "accounting/curves/repeat_and_select.py",
        "self.base.delta0 * (1 + 1e-13)",
        "self.base.delta0 * 0.95",
        f"{BEST}::test_the_failures_of_all_runs_add_up",
    ),
    Edit(
        "dpselect/mechanisms/combine/repeat_and_select.py",
        "failed = failed or run is None",
        "if run is None: return _FAILED",
        f"{BEST}::test_a_failure_is_told_after_all_runs_and_by_nothing_else",
    ),
    Edit(
        "dpselect/mechanisms/combine/repeat_and_select.py",
        "if cell < upto:",
        "if not cell > upto:",
        f"{BEST}::test_a_number_at_the_boundary_draws_more_bits",
    ),
    Edit(
        "accounting/ledger/verification.py",
        'entry.action in ("charge", "reserve") and not',
        'entry.action == "charge" and not',
        f"{KILLED}/test_tamper.py::test_a_charge_beyond_the_budget_is_found",
    ),
    Edit(
        "dpselect/pate/unsanitised.py",
        "require_left(release, delta)",
        "pass",
        "tests/dpselect/pate/data_dependent/test_private.py::test_a_release_that_leaves_no_delta_is_refused_before_it_is_charged",
    ),
    Edit(
        "accounting/ledger/ledger.py",
        "_require_fit(total, due, item)",
        "pass",
        f"{KILLED}/test_quotas.py::test_every_thirty_days_hold_their_limit",
    ),
    Edit(
        "accounting/ledger/quota.py",
        "last - self.rolling + 1",
        "last - self.rolling + 2",
        f"{KILLED}/test_quotas.py::test_every_thirty_days_hold_their_limit",
    ),
    Edit(
        "accounting/ledger/ledger.py",
        " and getattr(who, quota.by) is None",
        " and False",
        f"{KILLED}/test_quotas.py::test_who_is_limited_is_named",
    ),
    Edit(
        "accounting/ledger/ledger.py",
        "origin.at >= expires",
        "False",
        f"{KILLED}/test_quotas.py::test_a_reservation_lapses_and_makes_room",
    ),
    Edit(
        "accounting/ledger/ledger.py",
        '_later.c.action.in_(("commit", "void"))',
        '_later.c.action.in_(("void",))',
        f"{KILLED}/test_quotas.py::test_a_reservation_lapses_and_makes_room",
    ),
    Edit(
        "accounting/ledger/ledger.py",
        '.where(entries.c.dataset_id == bindparam("mine"), entries.c.expires <=',
        '.where(bindparam("mine") > 0, entries.c.expires <=',
        f"{KILLED}/test_quotas.py::test_what_lapses_in_one_dataset_is_of_no_concern_to_another",
    ),
    Edit(
        "accounting/ledger/ledger.py",
        "_later.c.dataset_id == entries.c.dataset_id, _later.c.key",
        "_later.c.key",
        f"{KILLED}/test_quotas.py::test_what_lapses_in_one_dataset_is_of_no_concern_to_another",
    ),
    Edit(
        "accounting/ledger/quota.py",
        'if entry.action in ("charge", "reserve") and entry.seq > revision.seq and not',
        "if False and not",
        f"{KILLED}/test_quotas.py::test_a_charge_past_a_quota_is_found",
    ),
    Edit(
        "accounting/ledger/book.py",
        '"void": -opening.count, ',
        "",
        f"{KILLED}/test_growth.py::test_sums_are_those_of_the_entries",
    ),
    Edit(
        "accounting/ledger/book.py",
        "return self._due != self._stored",
        "return False",
        f"{KILLED}/test_tamper.py::test_edited_sums_are_found",
    ),
    Edit(
        "dpselect/cli/out.py",
        "target = console or Console(stderr=True)",
        "target = console or Console()",
        "tests/dpselect/cli/test_progress.py::test_a_bar_is_drawn_on_stderr",
    ),
    Edit(
        "dpselect/answers/record.py",
        'if receipt.state == "released":',
        'if receipt.state == "void":',
        "tests/dpselect/cli/topk/test_delivery.py::test_an_edited_answer_is_found_out",
    ),
    Edit(
        "dpselect/session.py",
        "given is not None and ((given.l0, given.l1, given.l2) == (None, None, None) and given.monotone and given.linf == 1)",
        "True",
        "tests/dpselect/test_session_periods.py::test_a_bound_over_several_periods_is_refused_at_the_price_of_one",
    ),
    Edit(
        "dpselect/choose/request.py",
        "part = min(part, 1 / times)",
        "part = part * 105 / 100",
        "tests/laws/test_ledger_shares.py::test_a_part_of_epsilon_takes_at_most_that_part_of_the_failure",
    ),
    Edit(
        "dpselect/answers/record.py",
        "if held == asked:",
        "if True:",
        "tests/dpselect/cli/test_quantile.py::test_json_and_the_file_say_the_same_and_the_ledger_is_charged",
    ),
    Edit(
        "accounting/budget/budget.py",
        "used is None or not self.fits(NOTHING, price)",
        "used is None",
        f"{SETTLED}::test_a_plan_of_the_whole_capacity_gives_nothing_back",
    ),
    Edit(
        "accounting/budget/budget.py",
        "Price(max(0, price.main - used.main), 0)",
        "Price(max(0, price.main - 95 * used.main // 100), 0)",
        "tests/laws/test_settling.py::test_an_adaptive_plan_keeps_and_approaches_a_renyi_budget",
    ),
    Edit(
        "accounting/ledger/model.py",
        " or part.delta0 != whole.delta0:",
        ":",
        f"{SETTLED}::test_only_a_part_of_what_was_reserved_is_a_price",
    ),
    Edit(
        "accounting/ledger/ledger.py",
        'if ran is not None and opening[0].action != "reserve":',
        "if False:",
        f"{SETTLED}::test_only_reservations_are_settled_and_only_once",
    ),
    Edit(
        "accounting/conversion/adaptive_composition.py",
        "-math.expm1(-left / parts)",
        "-math.expm1(-0.95 * left / parts)",
        "tests/accounting/conversion/test_adaptive.py::test_the_closed_form_just_below_the_sum_is_that_of_an_adversary",
    ),
    Edit(
        "dpselect/mechanisms/queries/above_threshold.py",
        "span / (1 - search))",
        "span / (Fraction(21, 20) - search))",
        "tests/laws/test_sparse_vector_proofs.py::test_the_margins_are_exact_to_a_few_counts",
    ),
    Edit(
        "dpselect/mechanisms/joint/quantiles.py",
        "sum(parts) - min(parts))",
        "sum(parts) - 1.1 * min(parts))",
        "tests/laws/test_joint_quantiles.py::test_three_quantiles_reach_their_range",
    ),
    Edit(
        "dpselect/mechanisms/joint/quantiles.py",
        "span = 4 * (",
        "span = 3.8 * (",
        "tests/laws/test_joint_quantiles.py::test_the_range_is_exact",
    ),
    Edit(
        "dpselect/mechanisms/joint/quantiles.py",
        "int(self.points[run]) + size - 1)",
        "int(self.points[run]) + size)",
        "tests/laws/test_joint_quantiles.py::test_it_is_drawn_as_its_law_says",
    ),
    Edit(
        "dpselect/mechanisms/joint/quantiles.py",
        "- self.shares[left]))",
        "- 1.05 * self.shares[left]).astype(np.int64))",
        "tests/laws/test_joint_quantiles.py::test_sums_are_those_of_all_tuples",
    ),
    Edit(
        "accounting/ledger/store.py",
        "synchronous = EXTRA",
        "synchronous = FULL",
        f"{KILLED}/test_power_cut.py::test_a_charge_that_was_reported_outlives_a_power_cut",
    ),
    Edit(
        "accounting/files.py",
        "            stream.flush()\n            os.fsync(stream.fileno())\n",
        "            stream.flush()\n",
        f"{KILLED}/test_power_cut.py::test_an_answer_on_the_disk_is_paid_for_and_one_on_the_screen_is_kept",
    ),
    Edit(
        "dpselect/pate/labelling.py",
        "    sync_folder(path.parent)  # the draft's name too",
        "    # the draft's name too",
        "tests/dpselect/pate/test_labelling_power_cut.py::test_labels_on_the_disk_are_paid_for_and_released_ones_are_kept",
    ),
    Edit(
        "dpselect/mechanisms/combine/with_values.py",
        "return selecting + self._price() if len(selection) else selecting",
        "return selecting",
        "tests/laws/test_with_values.py::test_what_a_release_used_holds_its_values",
    ),
    Edit(
        "dpselect/mechanisms/combine/with_values.py",
        "if not within or one.linf > self.counted.linf or",
        "if not within or",
        "tests/laws/test_second_counts.py::test_what_has_no_second_look_is_refused",
    ),
    Edit(
        "dpselect/choose/second_look.py",
        "        self.sensitivity.require(found.sensitivity)\n",
        "",
        "tests/laws/test_histograms.py::test_stages_that_do_not_fit_are_refused_before_a_draw",
    ),
    Edit(
        "accounting/ledger/verification.py",
        "if chain.seq < latest:",
        "if chain.seq + 1 < latest:",
        f"{KILLED}/test_signatures.py::test_a_copy_that_is_one_entry_older_than_its_heads_is_found",
    ),
    Edit("dpselect/continual/horizon.py", "(-one[0], label_key(one[3]))", "-one[0]", TIES),
    Edit(
        "dpselect/continual/horizon.py",
        "first = order >= np.partition(order, -k)[-k]",
        'first = np.argsort(-order, kind="stable")[:k]',
        TIES,
    ),
    Edit(
        "dpselect/continual/averages.py",
        "np.lexsort((*means[:, among], -earlier[among]))",
        'np.argsort(-earlier[among], kind="stable")',
        f"{HORIZON}::test_the_order_does_not_depend_on_how_items_are_numbered",
    ),
    Edit(
        "accounting/ledger/item.py",
        "curve = group_privacy(self.curve, 2)",
        "curve = self.curve",
        f"{KILLED}/test_several_periods.py::test_a_bound_over_two_months_is_charged_as_an_exchange",
    ),
    Edit(
        "dpselect/session.py",
        'if getattr(scores, "sums", False):',
        "if False:",
        "tests/dpselect/test_session_periods.py::test_sums_cut_to_one_are_no_whole_counts",
    ),
    Edit(
        "accounting/ledger/item.py",
        'if across == "whole_counts" and not self.rests_on_linf:',
        "if False:",
        f"{KILLED}/test_several_periods.py::test_only_what_rests_on_linf_claims_whole_counts",
    ),
    Edit(
        "accounting/ledger/ledger.py",
        "and time_zone != dataset.time_zone:",
        "and False:",
        f"{KILLED}/test_several_periods.py::test_the_days_of_two_time_zones_are_not_charged_to_one_dataset",
    ),
    Edit(
        "accounting/ledger/quota.py",
        'if window == "week" and self.window not in',
        "if False and self.window not in",
        f"{KILLED}/test_several_periods.py::test_a_quota_over_time_pays_the_exchange_and_is_not_made_of_weeks",
    ),
    Edit(
        "accounting/ledger/ledger.py",
        "        ran = None  # what two changes",
        "        pass  # what two changes",
        f"{KILLED}/test_several_periods.py::test_a_plan_over_several_months_gives_nothing_back",
    ),
    Edit(
        "accounting/ledger/verification.py",
        "or _less(entry.failure, due.failure)",
        "",
        f"{KILLED}/test_tamper.py::test_a_price_too_low_in_failure_is_found",
    ),
    Edit(
        "accounting/ledger/verification.py",
        "func.length(claimed) != of * several",
        "func.length(claimed) < of * several",
        f"{KILLED}/test_tamper.py::test_edited_claims_are_found",
    ),
    Edit(
        "accounting/ledger/verification.py",
        "~exists(select(fingerprints.c.fingerprint).where(mine, holds))",
        "~exists(select(fingerprints.c.fingerprint).where(mine))",
        f"{KILLED}/test_tamper.py::test_edited_claims_are_found",
    ),
    Edit(
        "accounting/ledger/statements.py",
        "read_price(row.spent_main, row.spent_failure)) != spent:",
        "read_price(row.spent_main, row.spent_failure)) < NOTHING:",
        f"{KILLED}/test_tamper.py::test_an_edited_total_stops_the_next_charge",
    ),
    Edit(
        "accounting/ledger/verification.py",
        "place < one.declared",
        "place < len(one.datasets)",
        f"{KILLED}/test_tamper.py::test_a_dataset_that_heads_could_not_know_is_not_missing",
    ),
    Edit(
        "accounting/ledger/heads.py",
        "if moment.tzinfo is None:",
        "if False:",
        f"{KILLED}/test_signatures.py::test_a_rotation_is_dated",
    ),
    Edit(
        "accounting/ledger/heads.py",
        "file.truncate(len(whole + end))",
        "pass",
        f"{KILLED}/test_signatures.py::test_a_mirror_survives_a_crash_in_its_last_line",
    ),
    Edit(
        "accounting/ledger/heads.py",
        "found.seq == head.seq and found.hash != head.hash",
        "found.seq == head.seq and False",
        f"{KILLED}/test_signatures.py::test_a_mirror_notices_a_ledger_of_the_same_length",
    ),
    Edit(
        "accounting/ledger/export.py",
        "_LONGEST_LINE = 12 * (2",
        "_LONGEST_LINE = 2 * (2",
        f"{KILLED}/test_export.py::test_what_is_charged_can_be_imported",
    ),
    Edit(STRATEGY, "return sqrt_up(Fraction(sum(", "return 0.95 * sqrt_up(Fraction(sum(", HORIZON_NORM),
    Edit(STRATEGY, "column.append(int(factor * UNIT))", "column.append(int(0.95 * factor * UNIT) if j else UNIT)", HORIZON_NORM),
    Edit(
        STRATEGY, "np.array(_root(width), dtype", 'np.array(_root(periods if count == "window" else width), dtype', HORIZON_NORM
    ),
    Edit(STRATEGY, "return tuple(high.tolist())", "return tuple((0.95 * high).tolist())", LONE),
    Edit(STRATEGY, "passed = _most_passed(tails, squares, cells)", "passed = 0.95 * _most_passed(tails, squares, cells)", LONE),
    Edit(CONTINUAL, "math.nextafter(sqrt_up(Fraction(2)) * norm, math.inf)", "0.95 * math.sqrt(2) * norm", HORIZON_NORM),
    Edit(CONTINUAL, '(1 if self.stated == "add_remove" else 2)', '(1 if self.stated == "add_remove" else 1.9)', LONE),
    Edit(CONTINUAL, "(2 if self._tests_totals else 1)", "(1.9 if self._tests_totals else 1)", LONE),
    Edit(CONTINUAL, "1.0, self.users.cells, self._lone_chance", "1.0, self.users.cells, 1.05 * self._lone_chance", LONE),
    Edit(CONTINUAL, "thresholds(tuple(shared.tolist()), 1.0,", "thresholds(tuple(shared.tolist()), 0.95,", LONE),
    Edit(CONTINUAL, "shared = self.scale * self.strategy.total", "shared = 0.95 * self.scale * self.strategy.total", LONE),
    Edit(
        CONTINUAL,
        "np.sqrt(np.minimum(self.strategy.repeats, self.users.cells))[periods] * _ROOT_UP",
        "0.95 * np.sqrt(np.minimum(self.strategy.repeats, self.users.cells))[periods]",
        f"{HORIZON}::test_totals_need_the_root_of_how_often_a_pair_counts",
    ),
    Edit(
        CONTINUAL,
        "np.array(found) + self._rounding(self.strategy.totals)",
        "np.array(found) + 0.95 * self._rounding(self.strategy.totals)",
        f"{HORIZON}::test_thresholds_rise_by_the_rounding_of_measurements",
    ),
    Edit(
        CONTINUAL, "Approximate(curve=core, delta0=self.delta)", "Approximate(curve=core, delta0=0.95 * self.delta)", HORIZON_NORM
    ),
    Edit(
        CONTINUAL,
        "rounding, once = self._rounding(self.strategy.estimator)[periods],",
        "rounding, once = 0.95 * self._rounding(self.strategy.estimator)[periods],",
        f"{HORIZON}::test_thresholds_rise_by_the_rounding_of_measurements",
    ),
    Edit(
        "dpselect/continual/strategy.py",
        "_BELOW_ONE = 1 - 2.0**-30",
        "_BELOW_ONE = 1.05",
        f"{HORIZON}::test_the_weights_of_a_user_are_bounded_in_every_order",
    ),
    Edit(
        "dpselect/continual/strategy.py",
        "return (math.isqrt(self.squares[0]) + 1) / UNIT",
        "return 0.95 * (math.isqrt(self.squares[0]) + 1) / UNIT",
        f"{HORIZON}::test_the_weights_of_a_user_are_bounded_in_every_order",
    ),
    Edit(
        "dpselect/continual/state.py",
        'by_name("gaussian"), mechanism.scale * unit, grid)',
        'by_name("gaussian"), 0.95 * mechanism.scale * unit, grid)',
        f"{HORIZON}::test_measurements_are_the_exact_gaussian_on_the_grid",
    ),
    Edit(
        "dpselect/continual/state.py",
        "for since, until in slices(mechanism, first, end) if period > 1 else ():",
        "for since, until in ():",
        f"{HORIZON}::test_one_clock_of_noise",
    ),
    Edit(
        "dpselect/continual/state.py",
        "touched = np.flatnonzero(sums)",
        "touched = np.unique(self._numbered() & _LOW); sums = np.resize(sums, touched.max() + 1)",
        f"{HORIZON}::test_spent_users_create_no_items",
    ),
    Edit(
        "dpselect/continual/state.py",
        "since = period - (mechanism.window or period)",
        "since = period + 1 - (mechanism.window or period)",
        f"{HORIZON}::test_a_pair_counts_once_and_in_windows_again_after_them",
    ),
    Edit(
        "dpselect/continual/state.py",
        "return cells[np.diff(cells, prepend=-1) != 0]",
        "return cells",
        f"{HORIZON}::test_what_is_counted_is_what_a_dictionary_counts",
    ),
    Edit(
        "dpselect/continual/state.py",
        "np.bitwise_or.at(filters, users, _bits(items))",
        "np.bitwise_or.at(filters, users[1:], _bits(items)[1:])",
        f"{HORIZON}::test_what_is_counted_is_what_a_dictionary_counts",
    ),
    Edit(
        "dpselect/continual/horizon.py",
        "passed &= touched",
        "pass",
        f"{HORIZON}::test_lone_items_are_discovered_with_the_chance_that_is_charged",
    ),
    Edit(
        "dpselect/continual/horizon.py",
        "for closed in self._from_the_last_mark(done):",
        "for closed in done[-1:]:",
        "tests/dpselect/continual/test_horizon.py::test_a_restored_ledger_gets_every_mark_again",
    ),
    Edit(
        "dpselect/continual/horizon.py",
        'if later is not None and later.state == "released":',
        "if later is None and later:",
        "tests/dpselect/continual/test_horizon.py::test_an_older_copy_is_refused",
    ),
    Edit("dpselect/continual/memory.py", "or histogram.floor > 0 or", "or", f"{MEMORY}::test_what_a_memory_is_not_made_of"),
    Edit(
        "dpselect/continual/memory.py",
        "chance = histogram.delta / (2 * users * releases * len(weights))",
        "chance = 1.06 * histogram.delta / (2 * users * releases * len(weights))",
        f"{HORIZON}::test_means_pass_lone_items_with_the_chance_that_is_charged",
    ),
    Edit(
        "dpselect/continual/memory.py",
        "items * release, chance)",
        "items, chance)",
        f"{HORIZON}::test_means_pass_lone_items_with_the_chance_that_is_charged",
    ),
    Edit(
        "dpselect/continual/memory.py",
        '"delta": histogram.delta / (2 * users)}',
        '"delta": histogram.delta / users}',
        f"{HORIZON}::test_means_pass_lone_items_with_the_chance_that_is_charged",
    ),
    Edit(
        "dpselect/continual/memory.py",
        "for _ in range(vectors.releases)]",
        "for _ in range(0)]",
        f"{HORIZON}::test_a_memory_discovers_with_the_chances_of_its_tests",
    ),
    Edit(
        "dpselect/continual/memory.py",
        "vectors.known |= (true > 0) & (noisy >",
        "vectors.known |= (noisy >",
        f"{HORIZON}::test_lone_items_of_a_memory_cost_the_period_they_are_of_its_delta",
    ),
    Edit(
        "dpselect/continual/memory.py",
        "            self._kept.value = None  # until",
        "            pass  # until",
        f"{MEMORY}::test_a_draw_that_fails_closes_it",
    ),
    Edit(
        "dpselect/continual/memory.py",
        "        self.check(scores)\n        return session.publish(",
        "        return session.publish(",
        f"{MEMORY}::test_a_draw_that_fails_closes_it",
    ),
    Edit("dpselect/continual/averages.py", "_FALLS * self._weights + 1", "1.0 * self._weights + 1", MEANS),
    Edit("dpselect/continual/averages.py", "[k : _BORDER * k]", "[0 : _BORDER * k]", MEANS),
    Edit("dpselect/continual/averages.py", "2 * variance / weights", "variance / weights", MEANS),
    Edit(
        "dpselect/cli/topk/command.py",
        "if whole.curve.mu <= price.mu:",
        "if whole.curve.mu <= 1.05 * price.mu:",
        "tests/dpselect/cli/topk/test_every.py::test_gaussian_noise_on_a_public_domain_is_averaged",
    ),
    Edit(
        "accounting/page/wording.py",
        "rounding=ROUND_CEILING",
        'rounding="ROUND_HALF_EVEN"',
        f"{KILLED}/test_report.py::test_what_is_spent_rounds_up_and_what_is_left_down",
    ),
    Edit(
        "accounting/page/wording.py",
        "rounding=ROUND_FLOOR",
        "rounding=ROUND_CEILING",
        f"{KILLED}/test_report.py::test_what_is_spent_rounds_up_and_what_is_left_down",
    ),
    Edit(
        "accounting/ledger/store.py",
        ", postgresql_readonly=True",
        "",
        f"{KILLED}/test_failures.py::test_reading_cannot_write",
    ),
    Edit(
        "dpselect/verify/divergences.py",
        "miss = (1 - confidence) / 2",
        "miss = 1 - confidence",
        "tests/dpselect/test_verify.py::test_each_limit_misses_half_as_often_as_the_statement",
    ),
    Edit(
        "accounting/conversion/adaptive_composition.py",
        "lower = np.minimum(upper, np.where(lower > 0, (lower + plan.added) * (1 - 1e-15), plan.added))",
        "lower = np.where(lower > 0, (lower + plan.added) * (1 - 1e-15), plan.added)",
        f"{DELTAS}::test_certain_failure_leaves_no_gap",
    ),
    Edit(
        "dpselect/events/doors/formats.py",
        """delimiter=",", quote='"')""",
        'delimiter=",", quote="")',
        "tests/dpselect/events/test_errors.py::test_quotes_are_quotes_in_csv_alone",
    ),
    Edit(
        "accounting/ledger/statements.py",
        '    "dpledger_entries_expiring ON dpledger_entries (dataset_id, expires) WHERE expires IS NOT NULL",\n',
        "",
        f"{KILLED}/test_growth.py::test_what_each_charge_asks_for_has_an_index",
    ),
    Edit(
        "accounting/curves/closed_form.py",
        "min(0.0, epsilon - self.epsilon0) / 2",
        "min(0.0, epsilon - 0.95 * self.epsilon0) / 2",
        f"{DELTAS}::test_delta_is_that_of_a_pair_or_its_closed_form",
    ),
    Edit(
        "accounting/curves/profile_table.py",
        "at_zero = min(d + (1 - d)",
        "at_zero = min(0.95 * d + (1 - d)",
        f"{DELTAS}::{OF_A_PAIR}",
    ),
    Edit(
        "accounting/curves/profile_table.py",
        "share = math.exp(epsilon - high) *",
        "share = 0.95 * math.exp(epsilon - high) *",
        f"{DELTAS}::{OF_A_PAIR}",
    ),
    Edit(
        "accounting/curves/composed.py",
        "decimal_sum([(1, inner.added), (1, self.added)])",
        "decimal_sum([(1, inner.added)])",
        f"{DELTAS}::test_failures_are_not_lost_in_a_sum",
    ),
    Edit(
        "accounting/budget/budget.py",
        "exact(curve.delta0) <= exact(self.delta)",
        "exact(curve.delta0) <= exact(1.05 * self.delta)",
        f"{DELTAS}::test_a_zcdp_budget_admits_failures_up_to_its_delta",
    ),
    Edit(
        "accounting/curves/composed.py",
        "min(1.0, inner + self.added)",
        "min(1.0, inner + 0.95 * self.added)",
        f"{DELTAS}::{OF_A_PAIR}",
    ),
    Edit(
        "accounting/budget/budget.py",
        "return curve.epsilon0 <= release.epsilon0 and",
        "return 0.95 * curve.epsilon0 <= release.epsilon0 and",
        f"{GAUSSIAN}::test_what_counts_as_a_release",
    ),
    Edit(
        STABLE, "BoundedRange(epsilon=2 * math.sqrt(self.rho))", "BoundedRange(epsilon=1.9 * math.sqrt(self.rho))", STABLE_PRICES
    ),
    Edit(
        STABLE,
        "(curve=self.core, delta0=self.failure_delta)",
        "(curve=self.core, delta0=0.95 * self.failure_delta)",
        STABLE_PRICES,
    ),
    Edit(STABLE, "self.picks, delta0=self.failure_delta)", "self.picks, delta0=0.95 * self.failure_delta)", STABLE_PRICES),
    Edit(STABLE, "return 2 * math.sqrt(self.rho / picks)", "return 1.9 * math.sqrt(self.rho / picks)", STABLE_PRICES),
    Edit(STABLE, "most.rdp(_ORDERS) * _UP", "most.rdp(_ORDERS) * 0.95", STABLE_PRICES),
    Edit(
        "dpselect/pate/smooth_release.py",
        "left = math.nextafter(delta - release.failure, 0.0)",
        "left = math.nextafter(delta - 0.95 * release.failure, 0.0)",
        "tests/dpselect/pate/data_dependent/test_release.py::test_epsilon_is_that_of_labels_and_release_together",
    ),
    Edit(
        "dpselect/pate/smooth_release.py",
        "delta0=self.failure)",
        "delta0=0.95 * self.failure)",
        f"{DELTAS}::test_a_tested_release_pays_for_the_release_and_the_labels",
    ),
    Edit(
        "accounting/ledger/store.py",
        ', "trusted_schema = OFF"',
        "",
        f"{KILLED}/test_failures.py::test_a_charge_locks_before_it_reads",
    ),
    Edit(
        "accounting/ledger/store.py",
        '"BEGIN IMMEDIATE" if writes else "BEGIN"',
        '"BEGIN"',
        f"{KILLED}/test_failures.py::test_a_charge_locks_before_it_reads",
    ),
    Edit(
        "accounting/ledger/store.py",
        "_require_version(connection)  # the file may have been exchanged since it was opened",
        "pass",
        f"{KILLED}/test_tamper.py::test_a_client_that_was_opened_before_an_upgrade_charges_nothing",
    ),
    Edit(
        "accounting/ledger/verification.py",
        "any(one.ledger_id != identity for one in kept.heads)",
        "False",
        f"{KILLED}/test_tamper.py::test_heads_of_another_ledger_are_found",
    ),
    Edit(
        "dpselect/events/doors/postgresql.py",
        "    require_lines(target, what)\n",
        "",
        "tests/dpselect/events/test_doors.py::test_postgresql_refusals",
    ),
    Edit(
        "accounting/ledger/verification.py",
        "or_(entries.c.main != -_other.c.main, entries.c.failure != -_other.c.failure)",
        "entries.c.main != -_other.c.main",
        f"{KILLED}/test_tamper.py::test_a_step_that_breaks_the_rules_is_found",
    ),
    Edit(
        "accounting/ledger/verification.py",
        ", _other.c.key == entries.c.key, _other.c.period == entries.c.period)",
        ", _other.c.key == entries.c.key)",
        f"{KILLED}/test_tamper.py::test_a_step_of_another_period_is_found",
    ),
    Edit(
        "accounting/curves/closed_form.py",
        "math.log(self.candidates) / (reached - 1)",
        "0.95 * math.log(self.candidates) / (reached - 1)",
        f"{CONSTANTS}::test_the_moments_of_a_gaussian_maximum_are_their_union_bound",
    ),
    Edit(
        "accounting/ledger/model.py",
        "return 2 * (1 + max(price_in",
        "return 0 * (1 + max(price_in",
        f"{CONSTANTS}::test_what_another_version_may_have_moved_is_in_doubt",
    ),
    Edit(
        "dpselect/events/doors/formats.py",
        "for place in (block.find(end), block.rfind(end)) if place",
        "for place in (block.find(end),) if place",
        "tests/dpselect/events/test_errors.py::test_long_lines_and_letters_across_blocks_are_read",
    ),
    Edit(
        "dpselect/answers/record.py",
        ' and receipt.state in ("committed", "released") else None',
        " else None",
        "tests/dpselect/cli/topk/test_delivery.py::test_only_what_was_paid_for_is_an_answer_on_record",
    ),
    Edit(
        "dpselect/answers/record.py",
        'return acc.Curve.from_json(receipt.entries[0].curve or "") == paid.curve',
        "return True",
        "tests/dpselect/cli/topk/test_delivery.py::test_only_what_was_paid_for_is_an_answer_on_record",
    ),
    Edit(
        "accounting/ledger/model.py",
        "part - 1 - of // SLACK",
        "part - 1",
        f"{CONSTANTS}::test_what_another_version_may_have_moved_is_in_doubt",
    ),
    Edit(
        "dpselect/events/staging.py",
        'whole = " AND ".join(f"{name} IS NOT NULL" for name in labels)',
        'whole = "true"',
        "tests/dpselect/events/test_doors.py::test_a_file_that_is_wrong_about_its_nulls_is_counted_right",
    ),
    Edit(
        "dpselect/events/doors/formats.py",
        "sum(stats_null_count) = 0",
        "min(stats_null_count) = 0",
        "tests/dpselect/events/test_doors.py::test_what_a_file_says_of_its_nulls_changes_no_count",
    ),
    Edit(
        "dpselect/events/doors/formats.py",
        "complete = None if None in held.values() else part.complete",
        "complete = part.complete",
        "tests/dpselect/events/test_doors.py::test_several_files_are_without_nulls_if_each_says_so",
    ),
    Edit(
        "dpselect/continual/state.py",
        'return kind not in ("str", "numeral")',
        'return kind != "str"',
        "tests/dpselect/continual/test_horizon.py::test_text_that_writes_integers_is_text_in_every_period",
    ),
    Edit(
        "dpselect/events/staging.py",
        "if figures.text:",
        "if not table:",
        "tests/dpselect/events/test_reading.py::test_written_integers_are_counted_as_the_text_that_they_are",
    ),
    Edit(
        "dpselect/events/counting.py",
        """return f"CAST({column} AS VARCHAR)" if kind == "numeral" else column""",
        "return column",
        "tests/dpselect/events/test_reading.py::test_held_counts_of_written_integers_are_of_text",
    ),
]
