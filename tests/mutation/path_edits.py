"""Planted edits of paths of a budget: they charge a twentieth or one run too little, or let the share that is stated grow."""

from __future__ import annotations

from edits import Edit

PATHS = "tests/laws/test_budget_paths.py"
TAKEN = f"{PATHS}::test_a_path_takes_its_price_and_a_thousandth_less_does_not_pay"
BEFOREHAND = f"{PATHS}::test_what_is_asked_beforehand_is_what_a_charge_takes"
SHARE = f"{PATHS}::test_topk_takes_the_share_that_it_states_of_both_parts"
SPENT = f"{PATHS}::test_what_is_fitted_spends_both_parts_of_the_budget_and_no_more"
TAMPER = "tests/accounting/ledger/test_tamper.py"
AHEAD = "tests/dpselect/release/test_run.py::test_what_is_read_ahead_decides_nothing"
LEARNS_ONCE = "tests/dpselect/release/test_run.py::test_a_series_learns_once"
USED = "tests/dpselect/release/test_topk.py::test_what_is_left_is_counted_in_the_part_that_runs_out_first"
REMAINING = "tests/accounting/test_remaining.py"
SO_FAR = f"{REMAINING}::test_what_is_spent_so_far_is_what_a_budget_of_that_much_pays_for"
FITTING = f"{REMAINING}::test_a_refusal_counts_releases_and_its_remedies_hold"
GAUGE = "tests/accounting/ledger/test_report.py::test_three_figures_say_what_is_spent_and_how_many_more_fit"
BEYOND = f"{TAMPER}::test_a_charge_beyond_either_part_of_a_limit_is_found"
SESSION, CALIBRATION = "dpselect/release/session.py", "dpselect/plan/fit.py"

PATH_EDITS = [
    Edit(SESSION, "(name, item, **self._terms(count, notes))", "(name, item, **self._terms(max(1, count - 1), notes))", TAKEN),
    Edit(SESSION, "item = Guarantee.of(parts)", "item = Guarantee.of(parts[:1])", TAKEN),
    Edit(
        SESSION,
        "self._release(mechanism, 1, notes, lambda _: (mechanism.run(",
        "self._release(mechanism.base, 1, notes, lambda _: (mechanism.run(",
        TAKEN,
    ),
    Edit(
        "accounting/remaining.py",
        "can_afford(self.spent, runs * curve)",
        "can_afford(self.spent, (runs - 1) * curve)",
        BEFOREHAND,
    ),
    Edit(SESSION, '{**self._behalf, "count": count}', '{**self._behalf, "count": count - 1}', BEFOREHAND),
    Edit(
        "dpselect/continual/history.py",
        "        return self._mechanism.curve",
        "        return self._mechanism.model_copy(update={'scale': 1.05 * self._mechanism.scale}).curve",
        TAKEN,
    ),
    Edit(
        "dpselect/pate/labelling.py",
        "labels, count=ballots.rounds, spent",
        "labels, count=max(1, ballots.rounds - 1), spent",
        TAKEN,
    ),
    Edit(
        "dpselect/pate/unsanitised.py",
        "session.publish(release, ",
        "session.publish(release.model_copy(update={'sigma': 1.05 * release.sigma}), ",
        TAKEN,
    ),
    Edit("dpselect/release/user_quantiles.py", "epsilon=spec.epsilon", "epsilon=0.95 * spec.epsilon", TAKEN),
    Edit("dpselect/plan/request.py", "return 1 / self.part", "return Fraction(95, 100) / self.part", SHARE),
    Edit(CALIBRATION, "bracket, charges=share.charges)", "bracket)", SHARE),
    Edit(
        CALIBRATION,
        "share.charges) > share.budget.limit",
        "share.charges) > 1.05 * share.budget.limit",
        SHARE,
    ),
    Edit(
        CALIBRATION,
        "request.share.budget.failure_of_each(",
        "1.05 * request.share.budget.failure_of_each(",
        SHARE,
    ),
    Edit("dpselect/plan/voting_plan.py", "(1e-6, 1e6)) ** 2 / 2", "(1e-6, 1e6)) ** 2 / 1.9", SPENT),
    Edit(
        "dpselect/plan/voting_plan.py",
        "return acc.calibration.calibrate_count(mechanism.curve, budget)",
        "return acc.calibration.calibrate_count(mechanism.curve, budget) + 1",
        SPENT,
    ),
    Edit("dpselect/spec/shared_fields.py", "delta=self.delta or 0.0, rho", "delta=1.05 * (self.delta or 0.0), rho", SPENT),
    Edit(
        "dpselect/plan/counts.py",
        "min(map(_norm_of, budgets))",
        "_norm_of(budget)",
        "tests/laws/test_ledger_shares.py::test_counts_fit_a_share_of_a_budget_that_adds_up_pure_epsilons",
    ),
    Edit(
        SESSION,
        "        self._require_covered(mechanism)\n        return self._release(mechanism, 1",
        "        return self._release(mechanism, 1",
        "tests/dpselect/release/test_session_periods.py::test_what_states_no_sensitivity_does_not_count_as_whole",
    ),
    Edit(
        SESSION,
        "            self._require_covered(mechanism, _LATER)\n        receipt",
        "            pass\n        receipt",
        "tests/dpselect/release/test_session_periods.py::test_a_plan_over_several_periods_checks_every_draw",
    ),
    Edit(
        "accounting/ledger/quota.py",
        "Price(*(max(0, part - self.doubt) for part in self.spent))",
        "Price(max(0, self.spent.main - self.doubt), 0)",
        BEYOND,
    ),
    Edit(
        "accounting/ledger/verification.py",
        "self.dataset.budget.fits(NOTHING, entry.spent)",
        "self.dataset.budget.fits(NOTHING, Price(entry.spent.main, 0))",
        BEYOND,
    ),
    Edit(
        "accounting/ledger/verification.py",
        "        if total != entry.spent:",
        "        if total.main != entry.spent.main:",
        f"{TAMPER}::test_a_forged_running_total_is_found_even_with_every_hash_recomputed",
    ),
    Edit(
        "accounting/ledger/book.py",
        "read_price(row) != spent:",
        "read_price(row).main != spent.main:",
        f"{TAMPER}::test_an_edited_total_stops_the_next_charge",
    ),
    Edit(
        "dpselect/pate/labelling.py",
        "delta=float_up(price.failure, FAILURE_UNIT))",
        "delta=1.05 * float_up(price.failure, FAILURE_UNIT))",
        "tests/dpselect/pate/test_labelling.py::test_its_own_ledger_has_the_budget_of_the_job",
    ),
    Edit(
        "accounting/remaining.py",
        "zip(self._left, self._price, strict=True) if need]",
        "zip(self._left[:1], self._price) if need]",
        USED,
    ),
    Edit(
        "accounting/remaining.py",
        "_EXACT.subtract(exact(budget.limit)",
        "_EXACT.subtract(exact(0.95 * budget.limit)",
        SO_FAR,
    ),
    Edit("accounting/remaining.py", "mu=math.sqrt(total) * (1 + 1e-15)", "mu=math.sqrt(0.9 * total)", SO_FAR),
    Edit("accounting/remaining.py", "math.ceil(total) * budget.release", "math.floor(0.95 * total) * budget.release", SO_FAR),
    Edit(
        "accounting/remaining.py", "can_afford(self.spent, runs * curve)", "can_afford(self.spent, (runs - 1) * curve)", FITTING
    ),
    Edit("dpselect/release/run.py", "session.require(item, pay=self.pay, key=self.key)", "pass", USED),
    Edit("dpselect/release/run.py", "if ahead is None or ahead.look != look:", "if ahead is None:", AHEAD),
    Edit("dpselect/release/series.py", "if entry not in self._plans:", "if not self._plans:", LEARNS_ONCE),
    Edit("accounting/page/spent.py", "yield percent_up(left.used[0])", "yield percent_up(left.used[1])", GAUGE),
    Edit(
        "accounting/page/spent.py", "{failure_up(total.spent.failure)}/", "{failure_up(total.spent.failure * 19 // 20)}/", GAUGE
    ),
]
