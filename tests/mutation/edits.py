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
BOTH_BOUNDS = f"{DELTAS}::test_both_bounds_hold_the_truth_between_them"
PAID = f"{DELTAS}::test_failures_are_paid_for_to_the_unit"
OF_A_PAIR = "test_delta_is_that_of_a_pair_or_its_closed_form"
STABLE = "dpselect/mechanisms/stable_top_k.py"
STABLE_PRICES = f"{CONSTANTS}::test_the_prices_of_stable_sets_are_their_closed_forms"
CONTINUAL = "dpselect/continual/continual_top_k.py"
HORIZON = "tests/laws/test_continual.py"
MARGINS = "test_margins_hold_for_the_noise_with_the_chance_that_is_stated"
MEMORY = "tests/dpselect/continual/test_history.py"
MEANS = "tests/dpselect/continual/test_history.py::test_means_and_rates_are_those_of_a_direct_sum"
TIES = f"{HORIZON}::test_equal_scores_are_released_in_the_order_of_labels"
HORIZON_NORM, LONE = (
    f"{HORIZON}::test_the_curve_is_that_of_the_norm",
    f"{HORIZON}::test_lone_items_pass_with_the_chance_that_is_charged",
)
NOT_BELIEVED = f"{KILLED}/test_signatures.py::test_no_edit_is_believed"
SYNCED = f"{KILLED}/test_failures.py::test_a_charge_locks_before_it_reads"
WRITE_AHEAD = f"{KILLED}/test_failures.py::test_a_write_ahead_log_is_refused_with_the_remedy"
ADDRESSES = "tests/accounting/test_address.py::test_no_form_of_an_address_shows_its_password"
TOLERANCES = f"{KILLED}/test_tolerances.py"
TOO_CHEAP = f"{TOLERANCES}::test_an_entry_one_unit_below_its_price_is_found"
TOO_MUCH_BACK = f"{TOLERANCES}::test_a_settlement_one_unit_beyond_what_did_not_run_is_found"
ELSEWHERE = f"{SETTLED}::test_prices_that_another_processor_rounds_are_no_problem"
GIVEN_BACK = f"{SETTLED}::test_another_machine_gives_back_less_than_was_put_in"
BREAKS_OFF = f"{KILLED}/test_export.py::test_a_line_that_is_missing_is_found"
EPSILON_SO_FAR = f"{KILLED}/test_report.py::test_the_epsilon_so_far_is_rounded_up_and_what_is_left_down"
REPLAYED_CHOICES = "tests/dpselect/continual/test_horizon.py::test_the_choices_of_a_replay_follow_its_salt_and_the_period"
TWO_ROUNDS = "tests/laws/test_two_rounds.py"
LIMITS = f"{KILLED}/test_limits.py"
IN_ALL = f"{LIMITS}::test_periods_add_up_for_somebody_in_all_of_them"
RISK = "tests/laws/test_risk.py"
TRADE_OFF = f"{RISK}::test_the_bound_is_the_trade_off_of_gaussian_laplace_and_randomised_response"
SAMPLED, SAMPLED_CURVES, COMPOSE = (
    "accounting/convert/pld/sampled_noise.py",
    "accounting/curves/sampled.py",
    "accounting/convert/pld/compose.py",
)
ADAPTIVE = "accounting/convert/adaptive_composition.py"
SAMPLES = "tests/laws/test_sampled.py"
EACH_WAY, TWO_STEPS = (
    f"{SAMPLES}::test_each_way_to_differ_is_its_pair",
    f"{SAMPLES}::test_two_steps_are_the_worst_product_of_pairs",
)
RENYI_OF_LAPLACE = f"{SAMPLES}::test_renyi_bounds_of_sampled_laplace_noise"
ALL_NOISE = f"{SAMPLES}::test_rho_and_the_gaussian_cover_of_a_sampled_step_are_those_of_all_its_noise"
BOTH_MASSES = f"{SAMPLES}::test_rounding_to_a_coarse_grid_keeps_the_masses_of_both_laws"
OUTSIDE = f"{SAMPLES}::test_bounds_of_a_group_outside_of_the_exact_pair"
GROUP_OF_STEPS = f"{SAMPLES}::test_a_group_of_sampled_steps_is_priced_by_its_number_in_the_sample"
BLOCK = f"{SAMPLES}::test_a_block_is_not_below_its_steps"

THREE_FIGURES = "tests/accounting/ledger/test_three_figures.py::test_the_three_figures_are_the_same_wherever_they_stand"

HULL = "accounting/convert/pld/hull.py"
TEST_OF_CHOICE = f"{RISK}::test_the_bound_of_a_choice_is_that_of_the_test_on_both_answers"
READ_OF_CHOICE = f"{RISK}::test_what_the_risk_of_a_choice_reads_is_attained"
TELLS_ITS_BIT = "tests/accounting/convert/test_pld_every_part.py::test_a_renyi_bound_covers_how_far_a_response_tells_its_bit"

EDITS = [
    Edit(
        "accounting/curves/profile_table.py",
        "between = float(",
        "between = 0.95 * float(",
        f"{CONSTANTS}::test_the_rho_of_a_table_is_the_divergence_of_the_pair_that_it_states",
    ),
    Edit(
        "accounting/dp_events.py",
        "_up(shift * shift / 2 * _OUTWARD)",
        "_up(0.95 * shift * shift / 2 * _OUTWARD)",
        "tests/accounting/test_dp_events.py::test_the_rho_of_a_discrete_gaussian_is_its_kullback_leibler_divergence",
    ),
    Edit(
        HULL,
        "mass, float(values[-1]))",
        "mass, 0.95 * float(values[-1]))",
        "tests/accounting/convert/test_pld.py::test_a_hull_loses_what_its_bounds_say_of_failures",
    ),
    Edit(HULL, "variation = math.sqrt(", "variation = 0.95 * math.sqrt(", TELLS_ITS_BIT),
    Edit(
        "accounting/curves/composed.py",
        "math.nextafter(inner + failing, math.inf)",
        "math.nextafter(inner + 0.95 * failing, math.inf)",
        f"{DELTAS}::test_failures_of_gaussians_are_not_lost_in_their_sum",
    ),
    Edit(
        "accounting/curves/composed.py",
        "return mean(at) if left < 0 else min(mean(at),",
        "return 0.95 * mean(at) if left < 0 else min(mean(at),",
        TEST_OF_CHOICE,
    ),
    Edit(
        "accounting/curves/composed.py",
        "return mean(at) if left < 0 else min(mean(at),",
        "return mean(at) if left < 0 else min(0.95 * mean(at),",
        TEST_OF_CHOICE,
    ),
    Edit(
        "accounting/curves/composed.py",
        "min(mean(at), max(delta(left) for delta in options))",
        "min(mean(at), 0.95 * max(delta(left) for delta in options))",
        READ_OF_CHOICE,
    ),
    Edit("accounting/ledger/ledger.py", "if isinstance(item, Curve) or not hasattr(item", "if not hasattr(item", THREE_FIGURES),
    Edit(SAMPLED, "enumerate(_binomial(self.more, self.rate))", "enumerate(_binomial(self.more, 0.95 * self.rate))", EACH_WAY),
    Edit(SAMPLED, "enumerate(_binomial(self.fewer, self.rate))", "enumerate(_binomial(self.fewer, 0.95 * self.rate))", EACH_WAY),
    Edit(SAMPLED, "(weight, j * self.shift)", "(weight, 0.95 * j * self.shift)", EACH_WAY),
    Edit(SAMPLED, "(weight, -j * self.shift)", "(weight, -0.95 * j * self.shift)", EACH_WAY),
    Edit(SAMPLED, "gain = first - np", "gain = 0.95 * first - np", EACH_WAY),
    Edit(SAMPLED, "np.max([one.profile(y)", "np.min([one.profile(y)", EACH_WAY),
    Edit(SAMPLED, "range(self.group, -1, -1)", "range(self.group, self.group - 1, -1)", EACH_WAY),
    Edit(SAMPLED, "share = (1 - kept) /", "share = 0.95 * (1 - kept) /", BOTH_MASSES),
    Edit(SAMPLED, "mass[1:] += share * likely", "mass[1:] += 0.95 * share * likely", TWO_STEPS),
    Edit(SAMPLED, "mass[:-1] += (1 - share) * likely", "mass[:-1] += 0.95 * (1 - share) * likely", TWO_STEPS),
    Edit(SAMPLED_CURVES, "math.log(shift / _CELLS / 4)", "math.log(0.95 * shift / _CELLS / 4)", RENYI_OF_LAPLACE),
    Edit(
        SAMPLED_CURVES, "[logs[0] - _LOG_2, logs[-1] - _LOG_2]", "[logs[0] - 1.05 * _LOG_2, logs[-1] - _LOG_2]", RENYI_OF_LAPLACE
    ),
    Edit(SAMPLED_CURVES, "math.log1p(loss.rate * math.expm1", "math.log1p(0.95 * loss.rate * math.expm1", RENYI_OF_LAPLACE),
    Edit(SAMPLED_CURVES, "shift = decimal_sum([(loss.group, loss.shift)])", "shift = 0.95 * loss.shift", OUTSIDE),
    Edit("accounting/group.py", '{"group": users}', '{"group": users - 1}', GROUP_OF_STEPS),
    Edit(
        "accounting/group.py",
        "group_privacy(single._unsampled, users)",
        "group_privacy(single._unsampled, users - 1)",
        "tests/accounting/test_group.py::test_a_sampled_group_costs_no_more_than_one_that_is_in_every_sample",
    ),
    Edit(
        "accounting/convert/pld/loss.py",
        "weights * (1 - share), int(cells[-1]) + 2)",
        "0.95 * weights * (1 - share), int(cells[-1]) + 2)",
        BLOCK,
    ),
    Edit(
        "accounting/convert/pld/loss.py",
        "np.bincount(cells + 1, weights * share)",
        "np.bincount(cells + 1, 0.95 * weights * share)",
        BLOCK,
    ),
    Edit(COMPOSE, "np.cumsum(mass[::-1])[::-1], 1.0)", "np.cumsum(mass[::-1])[::-1], 0.95)", BLOCK),
    Edit(COMPOSE, "np.cumsum(mass[::-1])[::-1], 1.0)", "0.95 * np.cumsum(mass[::-1])[::-1], 1.0)", BLOCK),
    Edit(
        COMPOSE,
        "lost = min(1.0, (parts.infinity + window.above)",
        "lost = min(1.0, (0.95 * parts.infinity + window.above)",
        BLOCK,
    ),
    Edit(
        "accounting/ledger/book.py",
        "return most.admits(count * Curve.from_json(curve))",
        "return most.admits(Curve.from_json(curve))",
        f"{LIMITS}::test_a_single_release_is_capped_unless_it_says_why",
    ),
    Edit("accounting/ledger/book.py", "epsilon > dataset.most_in_all:", "epsilon > 1.05 * dataset.most_in_all:", IN_ALL),
    Edit("accounting/ledger/book.py", "self.declared.id) | self._spent", "self.declared.id)", IN_ALL),
    Edit(
        "accounting/ledger/book.py",
        "if not quota.lists(who):",
        "if False:",
        f"{LIMITS}::test_a_name_that_is_not_listed_is_refused",
    ),
    Edit("accounting/risk.py", "[math.exp(epsilon) * alpha + delta,", "[0.95 * math.exp(epsilon) * alpha + delta,", TRADE_OFF),
    Edit(
        "accounting/risk.py",
        "math.exp(-epsilon) * (1 - alpha - delta)]",
        "1.05 * math.exp(-epsilon) * (1 - alpha - delta)]",
        TRADE_OFF,
    ),
    Edit("accounting/risk.py", "[math.exp(epsilon) * alpha + delta,", "[math.exp(epsilon) * alpha + 0.95 * delta,", TRADE_OFF),
    Edit(
        "accounting/risk.py",
        "math.sqrt(kl / 2) * _OUTWARD",
        "0.95 * math.sqrt(kl / 2)",
        f"{RISK}::test_pinskers_bound_is_half_the_root_of_twice_the_divergence",
    ),
    Edit("accounting/ledger/heads.py", "if made.key != key:", "if False:", NOT_BELIEVED),
    Edit(
        "accounting/ledger/heads.py",
        'except (ValueError, InvalidSignature):\n        return "the',
        'except (ValueError, InvalidSignature):\n        return None and "the',
        NOT_BELIEVED,
    ),
    Edit(SAMPLED_CURVES, "min(own, self._unsampled.rho)", "min(own, 0.95 * self._unsampled.rho)", ALL_NOISE),
    Edit(
        SAMPLED_CURVES,
        "min(self._unsampled.mu_squared, pure",
        "min(0.95 * self._unsampled.mu_squared, pure",
        ALL_NOISE,
    ),
    Edit(ADAPTIVE, "nextafter(target - plan.added", "nextafter(target - 0.95 * plan.added", BOTH_BOUNDS),
    Edit(ADAPTIVE, "nextafter(target - plan.added", "nextafter(target - 1.05 * plan.added", BOTH_BOUNDS),
    Edit("accounting/ledger/model.py", "part - 1 - of // SLACK", "part + 1 + of // SLACK", GIVEN_BACK),
    Edit("accounting/ledger/model.py", "part - 1 - of // SLACK", "part", GIVEN_BACK),
    Edit("accounting/ledger/model.py", "== (by.package, by.host)", "== (by.package, opening.host)", GIVEN_BACK),
    Edit("accounting/ledger/model.py", "(package_version(), _host())", "(package_version(), entry.host)", ELSEWHERE),
    Edit(
        "accounting/curves/profile_table.py",
        "            return self.delta0\n        place",
        "            return 0.0\n        place",
        f"{DELTAS}::{OF_A_PAIR}",
    ),
    Edit("accounting/ledger/export.py", "if not ended:", "if False:", BREAKS_OFF),
    Edit("accounting/page/spent.py", "else rounded_up(left.epsilon)", "else rounded_down(left.epsilon)", EPSILON_SO_FAR),
    Edit("dpselect/continual/state.py", '"{salt}/{period}"', '"{period}"', REPLAYED_CHOICES),
    Edit("dpselect/continual/state.py", '"{salt}/{period}"', '"{salt}"', REPLAYED_CHOICES),
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
        "accounting/budget.py",
        "_DOWN.multiply(Decimal(low), Decimal(low))",
        "_DOWN.multiply(Decimal(low), Decimal(1.05 * low))",
        ONE_BY_ONE,
    ),
    Edit(
        "accounting/budget.py",
        "float_down(self.conversion_delta))",
        "1.05 * float_down(self.conversion_delta))",
        ONE_BY_ONE,
    ),
    Edit(
        "accounting/convert/gaussian_cover.py",
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
        "max(delta(abs(left)) for delta in options)",
        "0.95 * max(delta(abs(left)) for delta in options)",
        "tests/laws/test_learning.py::test_delta_is_attained_at_every_epsilon_by_its_own_adversary",
    ),
    Edit(
        "accounting/curves/composed.py",
        "dearest(at - place - ",
        "dearest(at - 0.95 * place - ",
        "tests/laws/test_learning.py::test_delta_is_attained_at_every_epsilon_by_its_own_adversary",
    ),
    Edit(
        "accounting/curves/composed.py",
        "1.0, (-math.expm1(left) + math.exp(left) * away)",
        "1.0, (math.exp(left) * away)",
        "tests/laws/test_learning.py::test_a_laplace_answer_is_averaged_over",
    ),
    Edit(
        "accounting/curves/composed.py",
        "max(value, LEAST_DELTA if at < self.core_epsilon else 0.0)",
        "value",
        "tests/laws/test_learning.py::test_without_a_delta_epsilons_add_up",
    ),
    Edit(
        "accounting/convert/bounds.py",
        "        if curve.core_epsilon <= at:\n            return min(*found, curve.delta0)",
        "        if curve.core_epsilon <= at:\n            return 0.0",
        "tests/laws/test_learning.py::test_a_laplace_answer_is_averaged_over",
    ),
    Edit(
        "accounting/curves/composed.py",
        "return decimal_sum(zip((count",
        "return 0.95 * decimal_sum(zip((count",
        f"{GAUSSIAN}::test_settling_gives_back_mu_squared",
    ),
    Edit(
        "accounting/budget.py",
        "Decimal(_most_releases(self))",
        "Decimal(_most_releases(self) + 1)",
        f"{GAUSSIAN}::test_identical_releases_one_by_one_are_a_plan",
    ),
    Edit(
        "accounting/budget.py",
        "self.release is not None or price is None",
        "price is None",
        f"{GAUSSIAN}::test_identical_releases_one_by_one_are_a_plan",
    ),
    Edit(
        "accounting/budget.py",
        " and curve.failure <= release.failure",
        " and 0.95 * curve.failure <= release.failure",
        f"{GAUSSIAN}::test_what_counts_as_a_release",
    ),
    Edit(
        "accounting/budget.py",
        "curve.added <= release.added",
        "0.95 * curve.added <= release.added",
        f"{GAUSSIAN}::test_what_counts_as_a_release",
    ),
    Edit(
        "accounting/remaining.py",
        "return None if whole else found, rest",
        "return found, rest",
        f"{GAUSSIAN}::test_no_epsilon_is_stated_after_a_plan_that_another_route_admitted",
    ),
    Edit(
        "accounting/budget.py",
        "total.failure <= self.capacity.failure",
        "total.failure <= 1.05 * self.capacity.failure",
        PAID,
    ),
    Edit("accounting/budget.py", "rounded_down(exact(failure or 0.0)", "rounded_down(exact(1.05 * (failure or 0.0))", PAID),
    Edit(
        "accounting/budget.py",
        "total.failure > self.capacity.failure",
        "total.failure > 1.05 * self.capacity.failure",
        PAID,
    ),
    Edit(
        "accounting/filter.py",
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
        "dpselect/pate/unsanitised.py",
        "math.nextafter(cost + self._rdp_at(a), math.inf)",
        "cost",
        f"{DELTAS}::test_a_tested_release_pays_for_the_release_and_the_labels",
    ),
    Edit(
        "dpselect/pate/unsanitised.py",
        "round(teachers**0.65 / 5)",
        "round(teachers**0.63 / 5)",
        "tests/dpselect/pate/data_dependent/test_release.py::test_an_order_is_picked_by_the_size_of_the_ensemble",
    ),
    Edit(
        "dpselect/plan/voting_plan.py",
        "-min(1.0, (1 - spread) *",
        "-min(1.0, 0.8 * (1 - spread) *",
        "tests/dpselect/plan/test_voting_plan.py::test_the_spread_of_ballots_is_the_stated_one",
    ),
    Edit(
        "dpselect/plan/voting_plan.py",
        "acc.BoundedRange(epsilon=2 * math.sqrt(mechanism.rho))",
        "acc.BoundedRange(epsilon=1.9 * math.sqrt(mechanism.rho))",
        f"{DELTAS}::test_the_adaptive_programme_prices_a_round_as_its_two_steps",
    ),
    Edit(
        "dpselect/plan/voting_plan.py",
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
        "dpselect/mechanisms/above_threshold.py",
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
        "dpselect/mechanisms/above_threshold.py",
        "alone=alone if alone",
        "alone=0.95 * alone if alone",
        "tests/laws/test_sparse_vector_proofs.py::test_the_alone_shift_of_a_threshold_is_what_one_answer_moves",
    ),
    Edit(
        "dpselect/mechanisms/stable_top_k.py",
        "failure = 2 * curve.delta0",
        "failure = 1.9 * curve.delta0",
        "tests/laws/test_per_group.py::test_half_the_price_is_reached_and_so_are_both_failures",
    ),
    Edit(
        "dpselect/mechanisms/with_values.py",
        "return fraction_up(items *",
        "return fraction_up(Fraction(19, 20) * items *",
        "tests/laws/test_second_counts.py::test_what_a_clip_takes_away_is_bounded",
    ),
    Edit(
        "dpselect/plan/counts.py",
        "unit * found.most_lost / part**power",
        "unit * found.most_lost / (2 * part) ** power",
        "tests/laws/test_second_counts.py::test_the_price_of_counts_bounds_every_clip",
    ),
    Edit(
        "dpselect/plan/counts.py",
        "ratio = ratio_up(",
        "ratio = 0.95 * ratio_up(",
        "tests/laws/test_second_counts.py::test_the_price_of_counts_bounds_every_clip",
    ),
    Edit(
        "dpselect/mechanisms/with_values.py",
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
        "dpselect/mechanisms/noisy_max.py",
        "tighter(2 * whole, centred",
        "tighter(whole, centred",
        "tests/laws/test_per_group.py::test_what_is_not_halved_pays_for_both_users",
    ),
    Edit(
        "dpselect/mechanisms/per_group.py",
        " if self.shares else None",
        "",
        "tests/laws/test_per_group.py::test_a_replaced_user_may_be_seen_in_twice_as_many_groups",
    ),
    Edit(
        "dpselect/mechanisms/sparse_histogram.py",
        "math.nextafter(self.floor + hiding, math.inf)",
        "math.nextafter(0.95 * self.floor + hiding, math.inf)",
        "tests/laws/test_histograms.py::test_what_few_users_touch_is_never_shown_and_the_last_one_of_enough_hides",
    ),
    Edit(
        "dpselect/mechanisms/sparse_histogram.py",
        "listed=matrix > self.floor",
        "listed=matrix > 0",
        "tests/laws/test_histograms.py::test_what_few_users_touch_is_never_shown_and_the_last_one_of_enough_hides",
    ),
    Edit(
        "dpselect/mechanisms/stable_queries.py",
        "self.k * BoundedRange(epsilon=self.epsilon_em)",
        "BoundedRange(epsilon=self.epsilon_em)",
        "tests/laws/test_sparse_vector_proofs.py::test_every_pick_of_a_larger_stable_set_is_paid_for",
    ),
    Edit(
        "dpselect/mechanisms/quantiles.py",
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
        "dpselect/mechanisms/stable_queries.py",
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
        "dpselect/events/held.py",
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
        "accounting/dp_events.py",
        "GaussianDP.of_rho(curve.rho).mu",
        "0.97 * GaussianDP.of_rho(curve.rho).mu",
        f"{CONSTANTS}::test_a_composition_of_gaussians_is_sampled_as_one_rounded_up",
    ),
    Edit(
        "accounting/dp_events.py",
        "math.nextafter(rate * delta, 1.0)",
        "math.nextafter(rate * delta, 0.0)",
        f"{CONSTANTS}::test_a_sampled_delta_is_rounded_up",
    ),
    Edit(
        "accounting/budget.py",
        "return _PRECISE.subtract(_GUARD, price)",
        "return _PRECISE.subtract(_GUARD, price) * Decimal('0.95')",
        f"{CONSTANTS}::test_waiting_for_all_moments_costs_its_closed_form",
    ),
    Edit(
        "accounting/ledger/model.py",
        "SLACK = 10**8",
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
        "dpselect/mechanisms/limited_domain.py",
        "touched if self.l0 is None else np.minimum(self.l0, touched)",
        "touched",
        f"{CONSTANTS}::test_limited_domain_prefers_by_what_one_user_can_touch",
    ),
    Edit(
        "dpselect/pate/ballots.py",
        '"record") == "record" and self.split == "position"',
        '"record") == "teacher" and self.split == "position"',
        "tests/dpselect/pate/test_sessions.py::test_labels_and_dp_sgd_share_a_ledger_of_records",
    ),
    Edit(
        "dpselect/pate/ballots.py",
        'if unit == "teacher" and relation == "add_remove"',
        'if relation == "add_remove"',
        "tests/laws/test_pate.py::test_a_record_reaches_the_price_of_a_changed_ballot_under_either_relation",
    ),
    Edit(
        "accounting/ledger/book.py",
        "        request.item.require_unit(self.dataset.unit, self.dataset.relation)\n",
        "",
        "tests/dpselect/pate/test_sessions.py::test_labels_and_dp_sgd_share_a_ledger_of_records",
    ),
    Edit(
        "dpselect/pate/voting.py",
        "        return self.peeling.curve\n",
        '        return self.model_copy(update={"scale": 1.05 * self.scale}).peeling.curve\n',
        "tests/laws/test_pate.py::test_the_curve_of_top_votes_is_reached",
    ),
    Edit(
        "dpselect/plan/voting_plan.py",
        "f1 = 2 * np.cumsum(frequencies) / (named + frequencies.sum())",
        "f1 = 1.9 * np.cumsum(frequencies) / (named + frequencies.sum())",
        "tests/dpselect/plan/test_voting_plan.py::test_the_constant_is_the_best_set_of_labels_for_all_items",
    ),
    Edit(
        "dpselect/plan/voting_plan.py",
        "scale=math.sqrt(k * rounds / (2 * rho)) / _SAFE",
        "scale=0.97 * math.sqrt(k * rounds / (2 * rho))",
        "tests/dpselect/plan/test_voting_plan.py::test_every_planned_mechanism_fits_the_budget",
    ),
    Edit(
        "dpselect/pate/ballots.py",
        "<= votes * self.teachers",
        "<= votes * self.teachers + self.teachers",
        f"{CONSTANTS}::test_counts_of_one_vote_more_than_the_teachers_have_are_refused",
    ),
    Edit(
        "dpselect/pate/ballots.py",
        "fits = int(self._sizes[1].max()) <= votes",
        "fits = int(self._sizes[1].max()) <= votes + 1",
        f"{CONSTANTS}::test_ballots_of_one_vote_more_than_configured_are_refused",
    ),
    Edit(
        "dpselect/events/engine.py",
        '"autoload_known_extensions": False',
        '"autoload_known_extensions": True',
        f"{CONSTANTS}::test_the_reader_loads_and_fetches_no_extension",
    ),
    Edit(
        "accounting/ledger/book.py",
        "asked = (request.action, item.count, periods,",
        "asked = (request.action, item.count, tuple(entry.period for entry in opening),",
        f"{KILLED}/test_periods.py::test_a_retry_is_of_the_same_periods_and_relation",
    ),
    Edit(
        "dpselect/release/question.py",
        "sensitivity=Sensitivity.of_counts(question.relation, question.reading.max_items_per_user),",
        "sensitivity=Sensitivity.of_counts('add_remove', question.reading.max_items_per_user),",
        "tests/dpselect/cli/topk/test_topk.py::test_the_relation_reaches_the_mechanism",
    ),
    Edit(
        "dpselect/release/question.py",
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
        f"{BEST}::test_a_poisson_price_is_its_formula",
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
        "dpselect/mechanisms/repeat_and_select.py",
        "failed = failed or run is None",
        "if run is None: return _FAILED",
        f"{BEST}::test_a_failure_is_told_after_all_runs_and_by_nothing_else",
    ),
    Edit(
        "dpselect/mechanisms/repeat_and_select.py",
        "if cell < upto:",
        "if not cell > upto:",
        f"{BEST}::test_a_number_at_the_boundary_draws_more_bits",
    ),
    Edit(
        "accounting/ledger/verification.py",
        "entry.opens and not",
        'entry.action == "charge" and not',
        f"{KILLED}/test_tamper.py::test_a_charge_beyond_the_budget_is_found",
    ),
    Edit(
        "dpselect/pate/unsanitised.py",
        "model_validate(chosen)\n        release._require_left(delta)",
        "model_validate(chosen)",
        "tests/dpselect/pate/data_dependent/test_private.py::test_a_release_that_leaves_no_delta_is_refused_before_it_is_charged",
    ),
    Edit(
        "accounting/ledger/book.py",
        "    require_fit(total, due, item)",
        "    pass",
        f"{KILLED}/test_quotas.py::test_every_thirty_days_hold_their_limit",
    ),
    Edit(
        "accounting/ledger/quota.py",
        "stretch(window, period, self.rolling)",
        "stretch(window, period, self.rolling - 1)",
        f"{KILLED}/test_quotas.py::test_every_thirty_days_hold_their_limit",
    ),
    Edit(
        "accounting/ledger/book.py",
        " and getattr(who, quota.by) is None",
        " and False",
        f"{KILLED}/test_quotas.py::test_who_is_limited_is_named",
    ),
    Edit(
        "accounting/ledger/book.py",
        "origin.at >= expires",
        "False",
        f"{KILLED}/test_quotas.py::test_a_reservation_lapses_and_makes_room",
    ),
    Edit(
        "accounting/ledger/book.py",
        '_later.c.action.in_(("commit", "void"))',
        '_later.c.action.in_(("void",))',
        f"{KILLED}/test_quotas.py::test_a_reservation_lapses_and_makes_room",
    ),
    Edit(
        "accounting/ledger/book.py",
        '.where(entries.c.dataset_id == bindparam("mine"), entries.c.expires <=',
        '.where(bindparam("mine") > 0, entries.c.expires <=',
        f"{KILLED}/test_quotas.py::test_what_lapses_in_one_dataset_is_of_no_concern_to_another",
    ),
    Edit(
        "accounting/ledger/book.py",
        "_later.c.dataset_id == entries.c.dataset_id, _later.c.key",
        "_later.c.key",
        f"{KILLED}/test_quotas.py::test_what_lapses_in_one_dataset_is_of_no_concern_to_another",
    ),
    Edit(
        "accounting/ledger/quota.py",
        "if later and not limit",
        "if False and not limit",
        f"{KILLED}/test_quotas.py::test_a_charge_past_a_quota_is_found",
    ),
    Edit(
        "accounting/ledger/summary.py",
        "-_opened.c.count), else_=0",
        "0), else_=0",
        f"{KILLED}/test_growth.py::test_sums_are_those_of_the_entries",
    ),
    Edit(
        "dpselect/cli/out.py",
        "target = console or Console(stderr=True)",
        "target = console or Console()",
        "tests/dpselect/cli/test_progress.py::test_a_bar_is_drawn_on_stderr",
    ),
    Edit(
        "dpselect/release/record.py",
        'if receipt.state == "released":',
        'if receipt.state == "void":',
        "tests/dpselect/cli/topk/test_delivery.py::test_an_edited_answer_is_found_out",
    ),
    Edit(
        "dpselect/release/session.py",
        "given is not None and ((given.l0, given.l1, given.l2) == (None, None, None) and given.monotone and given.linf == 1)",
        "True",
        "tests/dpselect/release/test_session_periods.py::test_a_bound_over_several_periods_is_refused_at_the_price_of_one",
    ),
    Edit(
        "dpselect/plan/request.py",
        "part = min(part, 1 / times)",
        "part = part * 105 / 100",
        "tests/laws/test_ledger_shares.py::test_a_part_of_epsilon_takes_at_most_that_part_of_the_failure",
    ),
    Edit(
        "dpselect/release/record.py",
        "if held == asked:",
        "if True:",
        "tests/dpselect/cli/test_quantile.py::test_json_and_the_file_say_the_same_and_the_ledger_is_charged",
    ),
    Edit(
        "accounting/budget.py",
        "used is None or not self.fits(NOTHING, price)",
        "used is None",
        f"{SETTLED}::test_a_plan_of_the_whole_capacity_gives_nothing_back",
    ),
    Edit(
        "accounting/budget.py",
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
        "accounting/ledger/book.py",
        'if ran is not None and opening[0].action != "reserve":',
        "if False:",
        f"{SETTLED}::test_only_reservations_are_settled_and_only_once",
    ),
    Edit(
        "dpselect/mechanisms/above_threshold.py",
        "span / (1 - search))",
        "span / (Fraction(21, 20) - search))",
        "tests/laws/test_sparse_vector_proofs.py::test_the_margins_are_exact_to_a_few_counts",
    ),
    Edit(
        "dpselect/mechanisms/quantiles.py",
        "sum(parts) - min(parts))",
        "sum(parts) - 1.1 * min(parts))",
        "tests/laws/test_joint_quantiles.py::test_three_quantiles_reach_their_range",
    ),
    Edit(
        "dpselect/mechanisms/quantiles.py",
        "span = 4 * (",
        "span = 3.8 * (",
        "tests/laws/test_joint_quantiles.py::test_the_range_is_exact",
    ),
    Edit(
        "dpselect/mechanisms/quantiles.py",
        "int(self.points[run]) + size - 1)",
        "int(self.points[run]) + size)",
        "tests/laws/test_joint_quantiles.py::test_it_is_drawn_as_its_law_says",
    ),
    Edit(
        "dpselect/mechanisms/quantiles.py",
        "- self.shares[left]))",
        "- 1.05 * self.shares[left]).astype(np.int64))",
        "tests/laws/test_joint_quantiles.py::test_sums_are_those_of_all_tuples",
    ),
    Edit(
        "accounting/ledger/store.py",
        "synchronous = EXTRA",
        "synchronous = FULL",
        SYNCED,
    ),
    Edit("accounting/ledger/store.py", "synchronous = EXTRA", "synchronous = NORMAL", SYNCED),
    Edit("accounting/ledger/store.py", 'scalar() == "wal"', 'scalar() == "log"', WRITE_AHEAD),
    Edit(
        "accounting/files.py", "0o666, 0o600", "0o666, 0o644", f"{KILLED}/test_failures.py::test_a_new_ledger_is_its_owners_alone"
    ),
    Edit("accounting/address.py", ":.*@", ":[^@]*@", ADDRESSES),
    Edit("accounting/address.py", "*:/+[^:@/\\s]*):.*@", "*://[^:@/\\s]*):.*@", ADDRESSES),
    Edit("accounting/ledger/model.py", "SLACK = 10**8", "SLACK = 100", TOO_CHEAP),
    Edit("accounting/ledger/model.py", "SLACK = 10**8", "SLACK = 95 * 10**6", TOO_CHEAP),
    Edit("accounting/ledger/verification.py", "charged < due - 1 -", "charged < due - 2 -", TOO_CHEAP),
    Edit("accounting/ledger/verification.py", "<= entry.main <= 0", "<= entry.main + 1 <= 1", TOO_MUCH_BACK),
    Edit(
        "accounting/ledger/verification.py",
        "if total != entry.spent:",
        "if abs(total.main - entry.spent.main) > 1:",
        f"{TOLERANCES}::test_a_total_is_the_sum_to_the_unit",
    ),
    Edit(
        "accounting/files.py",
        "            stream.flush()\n            os.fsync(stream.fileno())\n",
        "            stream.flush()\n",
        f"{KILLED}/test_power_cut.py::test_an_answer_on_the_disk_is_paid_for_and_one_on_the_screen_is_kept",
    ),
    Edit(
        "dpselect/pate/labelling.py",
        "        except JobDamaged:\n            draft.unlink()",
        "        except JobDamaged:\n            raise",
        "tests/dpselect/pate/test_labelling.py::test_a_job_that_fails_at_any_step_is_completed_and_pays_once",
    ),
    Edit(
        "dpselect/pate/labelling.py",
        "return self.mechanism.unit if isinstance(self.mechanism, Vote) else None",
        "return None",
        "tests/dpselect/pate/test_labelling.py::test_another_relation_is_refused",
    ),
    Edit(
        "dpselect/pate/labelling.py",
        "    sync_folder(path.parent)  # the draft's name too",
        "    # the draft's name too",
        "tests/dpselect/pate/test_labelling_power_cut.py::test_labels_on_the_disk_are_paid_for_and_released_ones_are_kept",
    ),
    Edit(
        "dpselect/mechanisms/with_values.py",
        "return selecting + self._price() if len(selection) else selecting",
        "return selecting",
        "tests/laws/test_with_values.py::test_what_a_release_used_holds_its_values",
    ),
    Edit(
        "dpselect/mechanisms/with_values.py",
        "if not within or one.linf > self.counted.linf or",
        "if not within or",
        "tests/laws/test_second_counts.py::test_what_has_no_second_look_is_refused",
    ),
    Edit(
        "dpselect/scores.py",
        "        self.sensitivity.require(found.sensitivity)\n",
        "",
        "tests/laws/test_histograms.py::test_stages_that_do_not_fit_are_refused_before_a_draw",
    ),
    Edit(
        "accounting/ledger/verification.py",
        "chain.seq < head.seq:",
        "chain.seq + 1 < head.seq:",
        f"{KILLED}/test_signatures.py::test_a_copy_that_is_one_entry_older_than_its_heads_is_found",
    ),
    Edit("dpselect/continual/horizon.py", "(row[0][0], -row[1], label_key(row[0][1]))", "(row[0][0], -row[1])", TIES),
    Edit(
        "dpselect/continual/horizon.py",
        "first = order >= np.partition(order, -k)[-k]",
        'first = np.argsort(-order, kind="stable")[:k]',
        TIES,
    ),
    Edit(
        "dpselect/continual/means.py",
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
        "dpselect/release/session.py",
        'if getattr(scores, "sums", False):',
        "if False:",
        "tests/dpselect/release/test_session_periods.py::test_sums_cut_to_one_are_no_whole_counts",
    ),
    Edit(
        "accounting/ledger/item.py",
        'if across == "whole_counts" and not self.rests_on_linf:',
        "if False:",
        f"{KILLED}/test_several_periods.py::test_only_what_rests_on_linf_claims_whole_counts",
    ),
    Edit(
        "accounting/ledger/book.py",
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
        "accounting/ledger/book.py",
        "            ran = None  # what two changes",
        "            pass  # what two changes",
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
        'entry.action == "void" and self.accounts.opening is None',
        "False",
        f"{KILLED}/test_tamper.py::test_a_second_void_is_found_by_the_chain_alone",
    ),
    Edit(
        "accounting/ledger/verification.py",
        "having(func.count() > 1)",
        "having(func.count() > 2)",
        f"{KILLED}/test_tamper.py::test_a_step_that_is_written_twice_is_found",
    ),
    Edit(
        "accounting/ledger/verification.py",
        '"replace_one" if entry.across == "exchange" else self.dataset.relation',
        "relation",
        f"{KILLED}/test_tamper.py::test_a_curve_that_is_proved_for_another_relation_is_found",
    ),
    Edit(
        "accounting/group.py",
        "made if relation in (None, made.proved_for) else",
        "made if True else",
        "tests/accounting/test_group.py::test_what_is_proved_for_one_relation_is_so_for_groups",
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
        "accounting/ledger/book.py",
        "read_price(row) != spent:",
        "read_price(row) < NOTHING:",
        f"{KILLED}/test_tamper.py::test_an_edited_total_stops_the_next_charge",
    ),
    Edit(
        "accounting/ledger/verification.py",
        "place < heads.declared",
        "place < len(kept)",
        f"{KILLED}/test_tamper.py::test_a_dataset_that_heads_could_not_know_is_not_missing",
    ),
    Edit(
        "accounting/ledger/export.py",
        "_LONGEST_LINE = 12 * (2",
        "_LONGEST_LINE = 2 * (2",
        f"{KILLED}/test_export.py::test_what_is_charged_can_be_imported",
    ),
    Edit(CONTINUAL, "return sqrt_up(Fraction(sum(", "return 0.95 * sqrt_up(Fraction(sum(", HORIZON_NORM),
    Edit(CONTINUAL, "column.append(int(factor * UNIT))", "column.append(int(0.95 * factor * UNIT) if j else UNIT)", HORIZON_NORM),
    Edit(
        CONTINUAL, "np.array(_root(width), dtype", 'np.array(_root(periods if count == "window" else width), dtype', HORIZON_NORM
    ),
    Edit(CONTINUAL, "return tuple(high.tolist())", "return tuple((0.95 * high).tolist())", LONE),
    Edit(CONTINUAL, "passed = _most_passed(tails, squares, cells)", "passed = 0.95 * _most_passed(tails, squares, cells)", LONE),
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
        "dpselect/continual/continual_top_k.py",
        "_BELOW_ONE = 1 - 2.0**-30",
        "_BELOW_ONE = 1.05",
        f"{HORIZON}::test_the_weights_of_a_user_are_bounded_in_every_order",
    ),
    Edit(
        "dpselect/continual/continual_top_k.py",
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
        "for since, until in _slices(mechanism, known, self.number_of_items()) if period > 1 else ():",
        "for since, until in ():",
        f"{HORIZON}::test_one_clock_of_noise",
    ),
    Edit(
        "dpselect/continual/state.py",
        "touched = np.flatnonzero(sums)",
        "touched = np.unique(self._cells(since) & _LOW); sums = np.resize(sums, touched.max() + 1)",
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
        "SELECT DISTINCT CAST(uid AS BIGINT)",
        "SELECT CAST(uid AS BIGINT)",
        f"{HORIZON}::test_what_is_counted_is_what_a_dictionary_counts",
    ),
    Edit(
        "dpselect/continual/state.py",
        'WHERE period <= ?", [since + 1]',
        'WHERE period <= ?", [since + 2]',
        f"{HORIZON}::test_what_is_counted_is_what_a_dictionary_counts",
    ),
    Edit(CONTINUAL, "inv_cdf((1 + confidence) / 2)", "inv_cdf((1 + confidence) / 2) * 0.95", f"{HORIZON}::{MARGINS}"),
    Edit(CONTINUAL, "+ self._rounding(self.strategy.estimator)\n\n", "\n\n", f"{HORIZON}::{MARGINS}"),
    Edit(
        CONTINUAL,
        "np.minimum(left, self.per_period)",
        "np.minimum(left, self.per_period + 1)",
        f"{HORIZON}::test_no_user_counts_for_more_cells_of_a_period_than_are_allowed",
    ),
    Edit(
        CONTINUAL,
        "return UNIT / int(self.weights()[0, 1])",
        "return 1.05 * UNIT / int(self.weights()[0, 1])",
        f"{HORIZON}::test_scores_of_a_stationary_log_are_stationary_numbers_of_users",
    ),
    Edit(
        "dpselect/cells.py",
        """CELL: Final = "length(CAST(g AS VARCHAR)) || ':' || """,
        """CELL: Final = "'1:' || """,
        f"{HORIZON}::test_cells_of_a_group_and_an_item_are_never_written_alike",
    ),
    Edit(
        "dpselect/continual/horizon.py",
        "for period, sign in ((last, 1.0), (first - 1, -1.0)):",
        "for period, sign in ((last, 1.0), (first - 1, -0.95)):",
        f"{HORIZON}::test_coarser_periods_are_read_off_the_discovered_items_alone",
    ),
    Edit(
        "dpselect/continual/horizon.py",
        "        before()\n        state.draw(",
        "        state.draw(",
        "tests/dpselect/continual/test_horizon.py::test_a_run_that_stops_after_the_charge_says_so",
    ),
    Edit(
        "dpselect/continual/horizon.py",
        'if receipt is not None and receipt.state == "void":',
        "if False:",
        "tests/dpselect/continual/test_horizon.py::test_a_voided_horizon_is_refused_for_ever",
    ),
    Edit(
        "dpselect/continual/horizon.py",
        "passed &= touched",
        "pass",
        f"{HORIZON}::test_lone_items_are_discovered_with_the_chance_that_is_charged",
    ),
    Edit(
        "dpselect/continual/horizon.py",
        "for closed in done[last - 1 :]:",
        "for closed in done[-1:]:",
        "tests/dpselect/continual/test_horizon.py::test_a_restored_ledger_gets_every_mark_again",
    ),
    Edit(
        "dpselect/continual/horizon.py",
        "if self._is_marked(meta, len(done) + 1):",
        "if False:",
        "tests/dpselect/continual/test_horizon.py::test_an_older_copy_is_refused",
    ),
    Edit("dpselect/continual/history.py", "and mechanism.floor == 0 and", "and", f"{MEMORY}::test_what_a_history_is_not_made_of"),
    Edit(
        "dpselect/continual/history.py",
        "chance = histogram.delta / (2 * users * releases * len(weights))",
        "chance = 1.06 * histogram.delta / (2 * users * releases * len(weights))",
        f"{HORIZON}::test_means_pass_lone_items_with_the_chance_that_is_charged",
    ),
    Edit(
        "dpselect/continual/history.py",
        "items * release, chance)",
        "items, chance)",
        f"{HORIZON}::test_means_pass_lone_items_with_the_chance_that_is_charged",
    ),
    Edit(
        "dpselect/continual/history.py",
        '"delta": histogram.delta / (2 * users)}',
        '"delta": histogram.delta / users}',
        f"{HORIZON}::test_means_pass_lone_items_with_the_chance_that_is_charged",
    ),
    Edit(
        "dpselect/continual/history.py",
        "for _ in range(vectors.releases)]",
        "for _ in range(0)]",
        f"{HORIZON}::test_a_memory_discovers_with_the_chances_of_its_tests",
    ),
    Edit(
        "dpselect/continual/history.py",
        "vectors.known |= (true > 0) & (noisy >",
        "vectors.known |= (noisy >",
        f"{HORIZON}::test_lone_items_of_a_memory_cost_the_period_they_are_of_its_delta",
    ),
    Edit(
        "dpselect/continual/history.py",
        "            self._kept.value = None  # until",
        "            pass  # until",
        f"{MEMORY}::test_a_draw_that_fails_closes_it",
    ),
    Edit(
        "dpselect/continual/history.py",
        "        self.check(scores)\n        return session.publish(",
        "        return session.publish(",
        f"{MEMORY}::test_a_draw_that_fails_closes_it",
    ),
    Edit("dpselect/continual/means.py", "_FALLS * self._weights + 1", "1.0 * self._weights + 1", MEANS),
    Edit("dpselect/continual/means.py", "[k : _BORDER * k]", "[0 : _BORDER * k]", MEANS),
    Edit("dpselect/continual/means.py", "2 * variance / weights", "variance / weights", MEANS),
    Edit(
        "dpselect/release/series.py",
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
        "dpselect/events/sources/formats.py",
        """delimiter=",", quote='"')""",
        'delimiter=",", quote="")',
        "tests/dpselect/events/test_errors.py::test_quotes_are_quotes_in_csv_alone",
    ),
    Edit(
        "accounting/ledger/store.py",
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
        "accounting/budget.py",
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
        "accounting/budget.py",
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
        "dpselect/pate/unsanitised.py",
        "left = math.nextafter(delta - release.failure, 0.0)",
        "left = math.nextafter(delta - 0.95 * release.failure, 0.0)",
        "tests/dpselect/pate/data_dependent/test_release.py::test_epsilon_is_that_of_labels_and_release_together",
    ),
    Edit(
        "dpselect/pate/unsanitised.py",
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
        "heads.ledger_id != identity",
        "False",
        f"{KILLED}/test_tamper.py::test_heads_of_another_ledger_are_found",
    ),
    Edit(
        "dpselect/events/sources/postgresql.py",
        "    CSV.require_lines(target, what)\n",
        "",
        "tests/dpselect/events/test_sources.py::test_postgresql_refusals",
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
        f"{CONSTANTS}::test_what_another_machine_may_have_moved_is_in_doubt",
    ),
    Edit(
        "dpselect/events/sources/formats.py",
        "for place in (block.find(end), block.rfind(end)) if place",
        "for place in (block.find(end),) if place",
        "tests/dpselect/events/test_errors.py::test_long_lines_and_letters_across_blocks_are_read",
    ),
    Edit(
        "dpselect/release/record.py",
        ' and receipt.state in ("committed", "released") else None',
        " else None",
        "tests/dpselect/cli/topk/test_delivery.py::test_only_what_was_paid_for_is_an_answer_on_record",
    ),
    Edit(
        "dpselect/release/record.py",
        'return acc.Curve.from_json(receipt.entries[0].curve or "") == paid.curve',
        "return True",
        "tests/dpselect/cli/topk/test_delivery.py::test_only_what_was_paid_for_is_an_answer_on_record",
    ),
    Edit(
        "accounting/ledger/model.py",
        "part - 1 - of // SLACK",
        "part - 1",
        f"{CONSTANTS}::test_what_another_machine_may_have_moved_is_in_doubt",
    ),
    Edit(
        "dpselect/events/staging.py",
        'whole = " AND ".join(f"{name} IS NOT NULL" for name in labels)',
        'whole = "true"',
        "tests/dpselect/events/test_sources.py::test_a_file_that_is_wrong_about_its_nulls_is_counted_right",
    ),
    Edit(
        "dpselect/events/staging.py",
        "make = engine.run if log.once else engine.group",
        "make = engine.group",
        "tests/dpselect/events/test_sources.py::test_a_stream_is_not_asked_twice",
    ),
    Edit(
        "dpselect/events/engine.py",
        "_SHARES = (0.85, 0.65, 0.5)",
        "_SHARES = (0.85, 0.65)",
        "tests/dpselect/events/test_sources.py::test_a_grouping_that_does_not_fit_is_tried_with_less_memory",
    ),
    Edit(
        "dpselect/events/sources/formats.py",
        "sum(stats_null_count) = 0",
        "min(stats_null_count) = 0",
        "tests/dpselect/events/test_sources.py::test_what_a_file_says_of_its_nulls_changes_no_count",
    ),
    Edit(
        "dpselect/events/sources/formats.py",
        "complete = None if None in held.values() else part.complete",
        "complete = part.complete",
        "tests/dpselect/events/test_sources.py::test_several_files_are_without_nulls_if_each_says_so",
    ),
    Edit(
        "dpselect/mechanisms/discover_then_select.py",
        "self.again > again.l2_of(None):",
        "self.again > 2 * again.l2_of(None):",
        "tests/laws/test_histograms.py::test_a_price_for_users_clipped_anew_needs_a_second_look",
    ),
    Edit(
        "dpselect/mechanisms/discover_then_select.py",
        "(part.shared_group_curve or 2 * part.curve for part",
        "(part.shared_group_curve or part.curve for part",
        "tests/laws/test_per_group.py::test_a_step_that_is_not_halved_counts_twice_beside_one_that_is",
    ),
    Edit(
        "accounting/group.py",
        "[curves.ZCDP(rho=_times(size * size, curve.rho))]",
        "[curves.ZCDP(rho=_times(size * size - 1, curve.rho))]",
        "tests/accounting/test_group.py::test_a_curve_without_a_rule_keeps_its_zcdp_bound_times_the_square",
    ),
    Edit(
        "accounting/filter.py",
        "del self._charges[state.number :]",
        "del self._charges[state.number + 1 :]",
        "tests/accounting/test_filter.py::test_a_charge_that_was_interrupted_leaves_no_trace",
    ),
    Edit(
        "accounting/budget.py",
        "share = self.limit * (total.main / self.capacity.main)",
        "share = self.limit * (price.main / self.capacity.main)",
        "tests/accounting/test_filter.py::test_what_several_charges_cost_is_their_share_of_the_limit",
    ),
    Edit(
        "accounting/ledger/quota.py",
        "account.spent.plus(price), account.doubt + unsure",
        "account.spent.plus(price), unsure",
        f"{CONSTANTS}::test_a_quota_adds_up_what_other_machines_may_have_moved",
    ),
    Edit(
        "dpselect/mechanisms/with_values.py",
        "self.mechanism.shared_group_curve or 2 * self.mechanism.curve",
        "self.mechanism.shared_group_curve or self.mechanism.curve",
        "tests/laws/test_per_group.py::test_a_step_that_is_not_halved_counts_twice_beside_one_that_is",
    ),
    Edit(
        "accounting/convert/pld/compose.py",
        "isinstance(loss, Banded) and loss.lost == 0",
        "isinstance(loss, Banded)",
        "tests/accounting/convert/test_pld_every_part.py::test_failures_stay_where_widths_are_rounded_to_levels",
    ),
    Edit(
        "accounting/ledger/export.py",
        "for query, _, message in cross_checks():",
        "for query, _, message in ():",
        f"{KILLED}/test_export.py::test_what_is_taken_back_after_a_commit_is_not_imported",
    ),
    Edit(
        "accounting/curves/sparse_vector.py",
        "answers = min(self.epsilon2, self._count * float((gain",
        "answers = min(self.epsilon2, 0.95 * self._count * float((gain",
        "tests/laws/test_sparse_vector.py::test_rho_of_answers_is_their_divergence_for_each_one_above",
    ),
    Edit(
        "dpselect/mechanisms/release.py",
        "    if not ordered:\n",
        '    if not ordered and scores.domain == "public":\n',
        "tests/dpselect/test_selection.py::test_a_set_of_observed_items_is_released_in_the_order_of_labels",
    ),
    Edit(
        "dpselect/mechanisms/per_group.py",
        "looks = [scores.sensitivity] if scores.second is None else [scores.sensitivity, scores.second.sensitivity]",
        "looks = [scores.sensitivity]",
        "tests/laws/test_per_group.py::test_a_second_look_must_be_at_uniform_shares_too",
    ),
    Edit(
        "dpselect/plan/learn.py",
        "scale = one.l1_of(None) / self.epsilon",
        "scale = one.linf / self.epsilon",
        "tests/dpselect/plan/test_shares.py::test_learning_costs_the_epsilon_that_it_states",
    ),
    Edit(
        "dpselect/plan/learn.py",
        "share * whole / max(1, request.releases)",
        "1.05 * share * whole / max(1, request.releases)",
        "tests/dpselect/plan/test_shares.py::test_a_share_for_learning_is_the_epsilon_that_learning_costs",
    ),
    Edit(
        "dpselect/plan/candidates.py",
        "first.l2_of(None) / math.sqrt(share)",
        "first.l2_of(None) / math.sqrt(1.05 * share)",
        "tests/dpselect/plan/test_shares.py::test_two_steps_divide_the_price_of_one_vector",
    ),
    Edit(
        "dpselect/plan/candidates.py",
        "__name__, part(budget, _FINDING)",
        "__name__, part(budget, 1.05 * _FINDING)",
        "tests/dpselect/plan/test_shares.py::test_groups_are_found_for_a_fifth_of_the_budget",
    ),
    Edit(
        "dpselect/plan/counts.py",
        'scale = whole / (share if norm == "l1" else math.sqrt(share))',
        'scale = whole / (share if norm == "l1" else math.sqrt(1.05 * share))',
        "tests/dpselect/plan/test_shares.py::test_counts_cost_the_share_that_is_stated",
    ),
    Edit(
        "dpselect/plan/candidates.py",
        "failure = max(curve.delta0 for curve in gaussian)",
        "failure = min(curve.delta0 for curve in gaussian)",
        "tests/laws/test_learning.py::test_of_gaussian_choices_the_dearest_and_the_likeliest_failure_are_paid",
    ),
    Edit(
        "dpselect/pate/voting.py",
        "(self.threshold is None or self.teachers is not None)",
        "(self.threshold is None and self.teachers is None)",
        "tests/dpselect/pate/test_ballots.py::test_a_private_number_of_teachers_sets_no_level",
    ),
    Edit(
        "dpselect/cli/guard.py",
        "if isinstance(note, Note)]",
        "]",
        "tests/dpselect/cli/test_guard.py::test_notes_of_others_are_not_shown",
    ),
    Edit(
        "dpselect/plan/fit.py",
        "self.most * (2 if self.relation",
        "self.most * (1 if self.relation",
        "tests/dpselect/plan/test_groups.py::test_counts_in_groups_take_the_share_that_the_plan_states",
    ),
    Edit(
        "accounting/ledger/book.py",
        "(label is None or done[0].label == label)",
        "True",
        f"{SETTLED}::test_the_first_claim_on_a_charge_decides",
    ),
    Edit(
        "dpselect/cli/guard.py",
        'kind += f": {os.strerror(error.errno)}"',
        'kind += f": {error}"',
        "tests/dpselect/cli/test_guard.py::test_an_error_is_one_line_that_quotes_nothing",
    ),
    Edit(
        "accounting/convert/pld/loss.py",
        "max(1 - lost, 1e-9)",
        "max(1 + lost, 1e-9)",
        "tests/accounting/convert/test_pld.py::test_failures_within_an_approximation_add_up",
    ),
    Edit(
        "accounting/convert/pld/loss.py",
        "failing + 1e-9, 0.5",
        "failing * 0.95, 0.5",
        "tests/accounting/convert/test_pld.py::test_failures_within_an_approximation_add_up",
    ),
    Edit(
        "dpselect/mechanisms/limited_domain.py",
        "competitors if self.l0 is None else min(self.l0, competitors)",
        "competitors",
        "tests/laws/test_exact_constants.py::test_limited_domain_prefers_by_what_one_user_can_touch",
    ),
    Edit(
        "dpselect/mechanisms/limited_domain.py",
        "(above[:size] - floors[size - self._least])",
        "(above[:size] + floors[size - self._least])",
        "tests/laws/test_mutants_draws.py::test_limited_domain_draws_above_the_floor_it_chose",
    ),
    Edit(
        "dpselect/continual/continual_top_k.py",
        "l2=one * sqrt_up(",
        "l2=one / sqrt_up(",
        "tests/laws/test_continual.py::test_the_curve_is_that_of_the_norm",
    ),
    Edit(
        "dpselect/continual/continual_top_k.py",
        '"public" if mechanism.delta is None else "unknown"',
        '"unknown"',
        "tests/laws/test_continual.py::test_the_curve_is_that_of_the_norm",
    ),
    Edit(
        "dpselect/scores.py",
        "not callable(score) or",
        "score is None and",
        "tests/laws/test_histograms.py::test_stages_that_do_not_fit_are_refused_before_a_draw",
    ),
    Edit(
        "dpselect/release/question.py",
        "round(2 * math.log2(",
        "round(2 / math.log2(",
        "tests/dpselect/cli/topk/test_learning.py::test_what_is_learnt_of_one_month_serves_the_next_and_not_the_year",
    ),
    Edit(
        "accounting/ledger/verification.py",
        "fingerprints.outerjoin(datasets, datasets.c.id == fingerprints",
        "fingerprints.outerjoin(datasets, datasets.c.id != fingerprints",
        "tests/accounting/ledger/test_tamper.py::test_edited_claims_are_found",
    ),
    Edit(
        "dpselect/mechanisms/canonical.py",
        "(self.k if self.gamma < 1 else 1) + 1",
        "self.k + 1",
        "tests/laws/test_exact_draws.py::test_a_row_has_as_many_classes_as_are_counted_beforehand",
    ),
    Edit(
        "dpselect/sensitivity.py",
        "and self.l0 is not None and self.l0 % 2:",
        "and self.l0 is not None and self.l0 % 2 and self.l2 is not None:",
        "tests/dpselect/test_sensitivity.py::test_an_odd_l0_is_not_twice_one_users",
    ),
    Edit(
        "dpselect/mechanisms/per_group.py",
        "is not None and l0 % 2:",
        "is not None and l0 % 2 and self.discovery is not None:",
        "tests/dpselect/test_sensitivity.py::test_groups_of_uniform_shares_need_an_even_l0",
    ),
    Edit(
        "dpselect/verify/log_replay.py",
        "l2=users * norm,",
        "l2=1.06 * users * norm,",
        "tests/dpselect/test_replay.py::test_a_second_round_that_spends_more_than_its_norm_is_found",
    ),
    Edit(
        "dpselect/mechanisms/two_rounds.py",
        "        low, high = (low, middle) if hidden(middle) else (middle, high)\n    return high",
        "        low, high = (low, middle) if hidden(middle) else (middle, high)\n    return 0.95 * high",
        f"{TWO_ROUNDS}::test_a_lone_item_is_shown_with_the_chance_that_is_charged",
    ),
    Edit(
        "dpselect/mechanisms/two_rounds.py",
        "(most * passing).max() + absentees",
        "passing.max() + absentees",
        f"{TWO_ROUNDS}::test_the_threshold_spends_delta_on_the_items_of_one_user",
    ),
    Edit(
        "dpselect/mechanisms/two_rounds.py",
        "(most * passing).max() + absentees",
        "(most * passing).max()",
        f"{TWO_ROUNDS}::test_the_threshold_spends_delta_on_the_items_of_one_user",
    ),
    Edit(
        "dpselect/mechanisms/two_rounds.py",
        "            self.mask_level / first,\n",
        "            1.05 * self.mask_level / first,\n",
        f"{TWO_ROUNDS}::test_the_threshold_spends_delta_on_the_items_of_one_user",
    ),
    Edit(
        "dpselect/mechanisms/two_rounds.py",
        "min(1.0, self.norm) / second,",
        "0.95 * min(1.0, self.norm) / second,",
        f"{TWO_ROUNDS}::test_a_lone_item_is_shown_with_the_chance_that_is_charged",
    ),
    Edit(
        "dpselect/mechanisms/two_rounds.py",
        "ratio_up(self._users * self.norm *",
        "ratio_up(0.95 * self._users * self.norm *",
        f"{TWO_ROUNDS}::test_mu_is_the_root_of_both_rounds_squares",
    ),
    Edit(
        "dpselect/mechanisms/two_rounds.py",
        "sqrt_up(Fraction(2)) if self.relation",
        "1.0 if self.relation",
        f"{TWO_ROUNDS}::test_mu_is_the_root_of_both_rounds_squares",
    ),
    Edit(
        "dpselect/mechanisms/two_rounds.py",
        "self.scale / math.sqrt(self.share), self.scale",
        "0.95 * self.scale / math.sqrt(self.share), self.scale",
        f"{TWO_ROUNDS}::test_mu_is_the_root_of_both_rounds_squares",
    ),
    Edit(
        "dpselect/mechanisms/two_rounds.py",
        "self.demands(first), self.norm)",
        "self.demands(first), 1.05 * self.norm)",
        f"{TWO_ROUNDS}::test_mu_is_attained_by_a_common_item",
    ),
    Edit(
        "dpselect/mechanisms/two_rounds.py",
        "return min(1.0, self.norm / max(self._one_user",
        "return max(1.0, self.norm / max(self._one_user",
        f"{TWO_ROUNDS}::test_scores_that_are_used_again_weigh_no_more_than_the_norm",
    ),
    Edit(
        "dpselect/mechanisms/two_rounds.py",
        "max(self._one_user, self.sensitivity.alone(1))",
        "self._one_user",
        f"{TWO_ROUNDS}::test_a_lone_item_of_a_stated_sensitivity_is_hidden",
    ),
    Edit(
        "dpselect/mechanisms/two_rounds.py",
        'second = source.rounded(again, by_name("gaussian"), scale,',
        'second = source.rounded(again, by_name("gaussian"), 0.95 * scale,',
        f"{TWO_ROUNDS}::test_the_noise_of_both_rounds_is_the_noise_that_is_priced",
    ),
    Edit(
        "dpselect/mechanisms/two_rounds.py",
        'drawn = source.above(scores.values[listed], by_name("gaussian"), first,',
        'drawn = source.above(scores.values[listed], by_name("gaussian"), 0.95 * first,',
        f"{TWO_ROUNDS}::test_the_noise_of_both_rounds_is_the_noise_that_is_priced",
    ),
    Edit(
        "dpselect/events/contributions.py",
        "// s, {_ONE**2})))",
        "// s, {_ONE**4})))",
        f"{TWO_ROUNDS}::test_the_engine_weighs_as_the_definition_says",
    ),
    Edit(
        "dpselect/events/contributions.py",
        "whole = math.floor(Fraction(norm) ** 2 * _ONE**2)",
        "whole = math.floor(Fraction(norm) ** 2 * _ONE**2 * 11 // 10)",
        f"{TWO_ROUNDS}::test_the_engine_weighs_as_the_definition_says",
    ),
    Edit(
        "dpselect/events/counting.py",
        'kept = f"({allowed.bound.kept(kept, held, tables.dialect)})"',
        "pass",
        f"{TWO_ROUNDS}::test_the_engine_weighs_as_the_definition_says",
    ),
    Edit(
        "dpselect/events/pairs.py",
        "if reading.max_items_per_user is not None and reading.salt is None:",
        "if reading.max_items_per_user is None and reading.salt is not None:",
        f"{TWO_ROUNDS}::test_weights_need_the_salt_of_the_counts",
    ),
    Edit(
        "dpselect/plan/candidates.py",
        "clip = None if choice.clip is None else choice.clip / shared",
        "clip = None if choice.clip is None else 1.05 * choice.clip / shared",
        "tests/dpselect/release/test_tables.py::test_a_forecast_of_one_group_has_the_noise_of_the_table",
    ),
    Edit(
        "dpselect/mechanisms/top_of_groups.py",
        "for place in places[group][: self.k]]",
        "for place in places[group][: self.k + 1]]",
        "tests/dpselect/events/test_cells.py::test_the_top_of_each_group_is_a_function_of_what_was_released",
    ),
    Edit(
        "dpselect/events/counting.py",
        'looked = f"(SELECT * FROM {looked} AS p SEMI JOIN (SELECT i AS g FROM {groups}) AS l USING (g))"',
        'looked = f"(SELECT * FROM {looked})"',
        "tests/dpselect/events/test_cells.py::test_listed_groups_alone_take_a_place",
    ),
    Edit(
        "dpselect/events/staging.py",
        "{dialect.literal(one.value)}, false)",
        "{dialect.literal(one.value)}, true)",
        "tests/dpselect/events/test_where.py::test_conditions_go_with_everything_else_that_reads",
    ),
    Edit(
        "dpselect/events/sources/base.py",
        '    if one == "user":\n        raise EventLogError(\n            f"where= is about',
        '    if one == "group":\n        raise EventLogError(\n            f"where= is about',
        "tests/dpselect/events/test_where.py::test_what_is_refused",
    ),
    Edit(
        "dpselect/plan/counts.py",
        "return mechanism.most_lost > 0",
        "return mechanism.most_lost > 10",
        "tests/dpselect/plan/test_counts.py::test_users_who_count_in_part_are_at_least_so_many",
    ),
    Edit(
        CONTINUAL,
        "most * repeated <= self.users.cells",
        "most <= self.users.cells",
        f"{HORIZON}::test_a_high_end_is_stated_where_every_cell_of_a_user_counts",
    ),
]
