"""The page on extending: its mechanism, its law case and its mutant are executed as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BLOCKS = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/extending.md").read_text(), flags=re.MULTILINE | re.DOTALL)
SUITE = """
import sys
import numpy as np
import dpselect as dps
from mechanism_laws import SAMPLES, misfit, outcome, outcomes, some_scores

for case in CASES:
    scores, rng = some_scores(case.mechanism, 3, "public")[-1], np.random.default_rng(20261121)
    law = case.mechanism.probabilities(scores)
    many = case.mechanism.select_many(np.tile(scores.dense(), (SAMPLES, 1)), rng=rng)
    assert misfit(outcomes(many, law), law) > 1e-10
    assert misfit([outcome(case.mechanism.select(scores, rng=rng), law) for _ in range(2000)], law) > 1e-10
    assert dps.Mechanism.from_json(case.mechanism.to_json()) == case.mechanism
edges = np.array([1.0, 3.0, 4.0, 5.0, 8.0])
for mechanism in HARDER:
    scores, rng = dps.Scores([6, 2, 0], sensitivity=TWO_ITEMS, domain="observed"), np.random.default_rng(20261121)
    law = mechanism.cell_probabilities(scores, edges)
    assert misfit([mechanism.select(scores, rng=rng).outcome.seen(edges, (0, 1, 2)) for _ in range(2000)], law) > 1e-10
    assert dps.Mechanism.from_json(mechanism.to_json()) == mechanism
    named = dps.Scores([60000, 1], sensitivity=TWO_ITEMS, domain="observed", labels=["zoo", "pier"])
    assert mechanism.select(named, rng=rng).labels == ("zoo",)
assert max(LeastPopular(epsilon=9.0).probabilities(dps.Scores([5, 1, 9], sensitivity=COUNTS)).items(), key=lambda p: p[1])[0] == 1
"""


@pytest.mark.slow
def test_the_page_runs_as_one_program(tmp_path: Path) -> None:
    """The new mechanism passes every law (14 chi-squares at 1e-10), and the laws catch the page's broken ones.

    In a process of its own: a mechanism registers its kind, and must not stay registered for the other tests.
    """
    program = tmp_path / "extending.py"
    program.write_text("\n".join(BLOCKS).replace("from __future__ import annotations\n", "") + SUITE)
    paths = os.pathsep.join([str(ROOT / "tests/laws"), *(p for p in sys.path if p)])
    done = subprocess.run(
        [sys.executable, str(program)], env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_page_has_all_its_parts() -> None:
    """Of the first example the module, the law case, the laws and the mutant; of the second the module and its laws."""
    assert len(BLOCKS) == 6
