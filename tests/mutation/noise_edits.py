"""Planted edits that draw with 5 % less noise, compute a law of less noise, or charge 5 % less than the noise costs."""

from __future__ import annotations

from edits import Edit

MECHANISMS, CURVES = "dpselect/mechanisms", "dpselect/mechanisms/noise_curves.py"
CANONICAL, JOINT = f"{MECHANISMS}/canonical.py", f"{MECHANISMS}/joint.py"
LIMITED, STABILITY = f"{MECHANISMS}/limited_domain.py", f"{MECHANISMS}/stable_top_k.py"
LAW = "tests/laws/test_mutants_laws.py::test_a_law_is_that_of_the_configured_noise"
ORDERED = "tests/laws/test_mutants_laws.py::test_an_ordered_one_shot_law_is_that_of_the_configured_noise"
PRICES, DRAWS = "tests/laws/test_mutants_prices.py", "tests/laws/test_mutants_draws.py"
LIPSCHITZ, GAUSSIAN = f"{PRICES}::test_a_price_is_the_range_over_the_scale", f"{PRICES}::test_a_gaussian_price_is_its_closed_form"
SPENT, ATTAINED = f"{PRICES}::test_a_price_in_epsilon_is_spent_as_noise", f"{PRICES}::test_some_pair_attains_the_price"
ASKED = f"{DRAWS}::test_a_draw_is_asked_for_with_the_configured_noise"
GAP = f"{DRAWS}::test_a_gap_is_tested_with_the_configured_noise"
DOMAIN = f"{DRAWS}::test_limited_domain_is_asked_for_with_its_noise"
CLASSES = f"{DRAWS}::test_canonical_classes_are_drawn_with_the_configured_noise"
BITS = "tests/laws/test_exact_draws.py::test_canonical_classes_are_decided_by_all_bits"
LEVELS = "tests/laws/test_exact_draws.py::test_joint_levels_are_decided_by_all_bits"

RATE = f"{DRAWS}::test_joint_levels_are_drawn_at_the_configured_rate"
WITHIN = f"{DRAWS}::test_joint_levels_fall_at_the_rate_within_their_cell"
COMPETITORS = "tests/laws/test_mutants_laws.py::test_the_number_of_competitors_is_a_softmax"
TESTED = "tests/laws/test_mutants_prices.py::test_a_gaussian_comparison_attains_the_price"
WINNERS = "tests/laws/test_noisy_max_laplace.py"
PLAIN = f"{DRAWS}::test_simulations_add_the_noise_at_its_scale"
TAIL = "tests/dpselect/sampling/test_decisions.py::test_exceeding_a_level_has_the_chance_of_the_tail"
INSIDE = "tests/dpselect/sampling/test_decisions.py::test_a_level_inside_the_first_word_is_refined"
ROWS = "tests/dpselect/sampling/test_decisions.py::test_rows_have_the_law_of_quadrature"
SLOW = "tests/dpselect/sampling/test_refinement.py::test_every_precision_gives_the_answer_of_the_slow_reference"


def cut(file: str, text: str, tests: str) -> Edit:
    """Where `text` has an @, a factor of .95 is planted."""
    return Edit(file, text.replace("@", ""), text.replace("@", "0.95 * "), tests)


NOISE_EDITS = [
    cut(f"{MECHANISMS}/noisy_max.py", "return by_name(self.noise), @self.scale", ASKED),
    cut(f"{MECHANISMS}/noisy_max.py", "argmax_probabilities(noise, @scale, centred", LAW),
    cut(f"{MECHANISMS}/noisy_max.py", "best = largest(scores, by_name(self.noise), @self.scale", ASKED),
    cut(f"{MECHANISMS}/noisy_max.py", "source.top_k_rows(matrix, by_name(self.noise), @self.scale", ASKED),
    cut(f"{MECHANISMS}/noisy_max.py", "top_set_probabilities(noise, @self.scale", LAW),
    cut(f"{MECHANISMS}/noisy_max.py", "ordered_probabilities(noise, @self.scale", ORDERED),
    cut(f"{MECHANISMS}/noisy_max.py", "peel(scores.values, noise, @self.scale", ASKED),
    cut(f"{MECHANISMS}/noisy_max.py", "peel_groups(scores.values, scores.multiplicities, noise, @self.scale", ASKED),
    cut(f"{MECHANISMS}/noisy_max.py", "argmax_probabilities(noise, @self.scale, values", LAW),
    cut(
        f"{MECHANISMS}/noisy_max.py",
        "return @self.k * winner_curve",
        f"{PRICES}::test_a_gaussian_price_is_its_closed_form",
    ),
    cut(CURVES, "epsilon_curve(noise, @ratio_up(sensitivity.range, scale))", LIPSCHITZ),
    cut(CURVES, "else LaplaceDP(epsilon=@epsilon)", ATTAINED),
    cut(CURVES, "return BoundedRange(epsilon=@epsilon) if", ATTAINED),
    cut(CURVES, "GaussianMax(mu=@ratio_up(sensitivity.range, scale)", GAUSSIAN),
    cut(CURVES, "return GaussianDP(mu=@ratio_up(min(shifts), scale))", TESTED),
    cut(CURVES, "squares.append(Fraction(@sensitivity.range)", GAUSSIAN),
    cut(CURVES, "squares.append(Fraction(@sensitivity.linf)", GAUSSIAN),
    cut(f"{MECHANISMS}/noisy_max.py", "LaplaceDP(epsilon=@ratio_up(times * sensitivity.range", LIPSCHITZ),
    cut(LIMITED, "return @ratio_up(1.0, self.epsilon)", DOMAIN),
    cut(LIMITED, "return 1 + @sum(parts) / self.epsilon", LAW),
    cut(LIMITED, "curve=times * BoundedRange(epsilon=@self.epsilon)", SPENT),
    cut(LIMITED, 'by_name("gumbel"), @self._scale, min(', DOMAIN),
    cut(LIMITED, 'by_name("gumbel"), @self._scale, 1)', f"{DRAWS}::test_limited_domain_chooses_with_its_noise"),
    cut(LIMITED, "gumbel_softmax(self._preferences(floors), @1 / self.epsilon", COMPETITORS),
    cut(CANONICAL, "return @ratio_up(self.sensitivity.range, self.epsilon)", SPENT),
    cut(CANONICAL, "epsilon_curve(self.noise, @self.epsilon)", SPENT),
    cut(
        f"{MECHANISMS}/noisy_max.py",
        "epsilon_curve(self.noise_name, @self.epsilon)",
        f"{WINNERS}::test_exponential_noise_attains_the_laplace_profile",
    ),
    cut(CANONICAL, "self.top_set), by_name(self.noise), @self.scale, source)", CLASSES),
    cut(CANONICAL, "RowDraw(self.k, self.gamma, self.top_set, by_name(self.noise), @self.scale)", CLASSES),
    cut(CANONICAL, "argmax_probabilities(by_name(self.noise), @self.scale, utility)", LAW),
    cut(CANONICAL, "blocks.low, blocks.high), @self._scale)", BITS),
    cut(CANONICAL, "rational(@self._scale)", BITS),
    cut(CANONICAL, "totals(scores, noise, @asked.scale)", BITS),
    cut(CANONICAL, "rational(@asked.scale)", BITS),
    cut(CANONICAL, "/ (@0.5 * asked.scale)", BITS),
    cut(JOINT, "span = @self.sensitivity.range", SPENT),
    cut(JOINT, "BoundedRange(epsilon=@self.epsilon)", SPENT),
    cut(JOINT, "return @(sequences - math.log(self.beta)) / self.rate", RATE),
    cut(JOINT, "AllowedRanks(ranked, self.k, @self.rate", RATE),
    cut(JOINT, "arb(low) - @(uniform", LEVELS),
    cut(JOINT, "return np.asarray(@2.0 * half * self.rate)", LEVELS),
    cut(JOINT, "least = -@0.5 *", WITHIN),
    cut(JOINT, "most = -@0.5 *", WITHIN),
    cut(JOINT, "share = @-np.expm1(-width)", LEVELS),
    cut(JOINT, "[arb(-@rate * edge).exp() for", LEVELS),
    cut(STABILITY, "step = @ratio_up(gap_shift(self.relation), self.scale)", SPENT),
    cut(STABILITY, "by_name(self.noise), @self.scale, math.nextafter", GAP),
    cut(STABILITY, "math.nextafter(@self.scale * self.threshold", GAP),
    Edit(STABILITY, "gap_shift(self.relation), 0.0) / self.scale", "gap_shift(self.relation), 0.0) / (0.95 * self.scale)", LAW),
    cut("dpselect/sampling/contest.py", "return @low * scale, high * scale", TAIL),
    cut("dpselect/sampling/contest.py", "[(rational(@scale), entries.draw(i, words))]", INSIDE),
    cut("dpselect/sampling/contest.py", "heights(values, self.reference, @self.scale)", SLOW),
    cut("dpselect/sampling/contest.py", "scale = rational(@problem.scale)", SLOW),
    cut("dpselect/sampling/plain.py", "noisy = draw(len(chunk))\n        noisy *= @scale", PLAIN),
    cut("dpselect/sampling/plain.py", "reshape(block.shape)\n        noisy *= @scale", PLAIN),
    cut("dpselect/sampling/plain.py", "values + @scale * draw(", PLAIN),
    cut("dpselect/sampling/exact.py", "keepdims=True), @problem.scale)", ROWS),
    Edit(
        "dpselect/sampling/exact.py",
        "best - margin - _OF_HEIGHT",
        "best - _OF_HEIGHT",
        "tests/dpselect/sampling/test_refinement.py::test_estimates_in_the_wrong_order_do_not_decide",
    ),
    Edit(
        "dpselect/sampling/contest.py",
        "joined = reach[1:] >= low[:-1]",
        "joined = high[1:] >= low[:-1]",
        "tests/dpselect/sampling/test_refinement.py::test_one_wide_interval_reaches_beyond_its_neighbours",
    ),
    Edit(
        "dpselect/sampling/discrete.py",
        "np.flatnonzero(table[np.maximum(counts - 1, 0)] == uniform).tolist():",
        "():",
        "tests/dpselect/sampling/test_discrete.py::test_an_undecided_word_is_decided_by_the_bits_that_follow",
    ),
    Edit(
        "dpselect/sampling/contest.py",
        "return fmpq(-(1 << _BEYOND))",
        "return fmpq(-(1 << 40))",
        "tests/dpselect/sampling/test_refinement.py::test_what_is_left_out_is_below_every_number",
    ),
    Edit(
        "dpselect/sampling/base.py",
        "low += middle - self._high[:, None]",
        "low += middle - self._low[:, None]",
        "tests/laws/test_exact_draws.py::test_a_threshold_known_from_one_side_decides_nothing_too_early",
    ),
    Edit(
        "dpselect/sampling/base.py",
        "high += middle - self._low[:, None]",
        "high += middle - self._high[:, None]",
        "tests/laws/test_exact_draws.py::test_a_threshold_known_from_one_side_decides_nothing_too_early",
    ),
]
