"""An installed package adds a mechanism, a curve and a noise: the listing, planner, configuration,
ledger and JSON know them.

The package is the second example of the page on extending, a mechanism with a planning law and a
curve, on the path with the record that an installer leaves. Each program has a process of its own:
a kind stays registered.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs/examples"
STABLE_COUNTS, HALF_SECH = (
    (EXAMPLES / f"{name}.py").read_text() for name in ("stable_counts", "half_sech")
)
ENTRY_POINTS = """
[dpselect.mechanisms]
stable_counts = stable_counts:StableCounts
tiny_max = tiny_max:TinyMax
broken = tiny_nowhere:Broken
mislabeled = tiny_curve:TinyCurve

[accounting.curves]
tiny = tiny_curve:TinyCurve

[dpselect.noises]
half_sech = half_sech:HalfSech
"""
TINY_CURVE = '''
"""A curve that says what PureDP says."""
from typing import Literal
from pydantic import Field
from accounting import PureDP
from accounting.curves.base import OneParameter
from accounting.frozen import NonNegative

class TinyCurve(OneParameter):
    kind: Literal["tiny"] = "tiny"
    epsilon1: NonNegative = Field(description="a finite epsilon >= 0, in nats")

    @property
    def parameter(self): return self.epsilon1
    @staticmethod
    def formula(parameter, orders): return PureDP.formula(parameter, orders)
    @property
    def rho(self): return PureDP(epsilon=self.epsilon1).rho
    @property
    def core_epsilon(self): return self.epsilon1
    def profile(self, epsilon): return PureDP(epsilon=self.epsilon1).profile(epsilon)
'''
TINY_MAX = '''
"""The largest of noisy scores, with a curve of this package and a planning law."""
from typing import ClassVar, Literal
from pydantic import Field
from accounting.frozen import Positive
from dpselect import Sensitivity
from dpselect.mechanisms.base import Mechanism
from dpselect.mechanisms.traits import EPSILON, Traits
from dpselect.mechanisms import noisy_max
from dpselect.noise import noise_of
from tiny_curve import TinyCurve

class TinyMax(Mechanism):
    """The largest of scores with exponential noise.

    Guarantee: TinyCurve(epsilon), as of PermuteAndFlip.

    Args:
        epsilon: nats, > 0.
        sensitivity: what one user may change.
    """
    kind: Literal["tiny_max"] = "tiny_max"
    traits: ClassVar[Traits] = Traits(
        answers="one_item", noise=EPSILON, ordered=True, most=1, domain="public",
    )
    epsilon: Positive = Field(description="a finite epsilon > 0, in nats")
    sensitivity: Sensitivity = Field(default=Sensitivity(), description="a Sensitivity")

    @property
    def sensitivity_bound(self): return self.sensitivity
    @property
    def curve(self): return TinyCurve(epsilon1=self.epsilon)
    @property
    def least_candidates(self): return 1
    @property
    def most_candidates(self): return None
    @property
    def scale(self): return self.sensitivity.range / self.epsilon
    def _select(self, scores, source): return noisy_max.select_winner(scores, noise_of("exponential"), self.scale, source)
    def _select_many(self, matrix, source): return noisy_max.select_winners(matrix, noise_of("exponential"), self.scale, source)
    def _probabilities(self, scores): return noisy_max.winner_probabilities(scores, noise_of("exponential"), self.scale)
'''  # noqa: E501
KNOWN_EVERYWHERE = """
import json, sys, warnings
import accounting as acc, dpselect as dps
from typer.testing import CliRunner
from dpselect.app.cli import app
from dpselect.app.spec.toml_file import Config
from dpselect.plan.fit import fitted
from dpselect.plan.request import TopKRequest

assert not {"tiny_max", "tiny_curve", "stable_counts"} & set(sys.modules), "loaded before anybody asked"

# JSON: a kind that a package declares is loaded, and it alone; others stay unknown, whatever they are called.
tiny = dps.Mechanism.from_json('{"kind": "tiny_max", "epsilon": 1.0}')
assert (type(tiny).__name__, "stable_counts" in sys.modules) == ("TinyMax", False)
assert dps.Mechanism.from_json(tiny.to_json()) == tiny
for kind in ("tiny", "tiny_curve", "os", "stable_counts:StableCounts", "json"):
    try:
        dps.Mechanism.from_json(json.dumps({"kind": kind}))
    except dps.errors.InvalidMechanism as error:
        assert "must be one of" in str(error), error
    else:
        raise AssertionError(kind)

# A noise too, by the kind that JSON names.
own = '{"kind": "canonical_top_k", "k": 2, "epsilon": 1.0, "noise": {"kind": "half_sech"}}'
assert type(dps.Mechanism.from_json(own).noise).__name__ == "HalfSech"

# A broken package is named, and takes nothing else down.
broken = {"broken": "of the installed tiny cannot be loaded (ModuleNotFoundError", "mislabeled": "which does not have that kind"}
for kind, words in broken.items():
    try:
        dps.Mechanism.from_json(json.dumps({"kind": kind}))
    except dps.errors.InvalidMechanism as error:
        assert words in str(error), error
    else:
        raise AssertionError(kind)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    listed = CliRunner().invoke(app, ["mechanisms", "--json"])
assert listed.exit_code == 0, listed.output
told = [*(str(one.message) for one in caught), listed.stderr]
assert all(any(f"'{kind}'" in words for words in told) for kind in ("broken", "mislabeled")), told
warnings.simplefilter("ignore")
described = {entry["kind"]: entry for entry in json.loads(listed.stdout)}
assert described["tiny_max"]["topk"]
# It needs a stated l0, more than the default sensitivity: listed all the same, and configured where that is stated.
assert not described["stable_counts"]["topk"]
assert described["stable_counts"]["domain"] == "unknown or public"
two_items = TopKRequest(k=3, sensitivity=dps.Sensitivity(l0=2))
counts = fitted("stable_counts", acc.Budget(epsilon=1.0, delta=1e-6), two_items)
assert acc.Budget(epsilon=1.0, delta=1e-6).admits(counts.curve)

# A plan forecasts both by their own draws, and says of what a question does not suit why; a file may hold both.
shape = dps.Profile.zipf(1.0, items=50, users=1000)
planned = dps.plan(acc.Budget(epsilon=1.0), 1, profile=shape, mechanism="tiny_max", compare=["permute_and_flip"])
assert {one.name for one in planned.ranked} == {"tiny_max", "permute_and_flip"}
asked = {"profile": shape, "mechanism": "stable_counts", "unknown_domain": True}
planned = dps.plan(acc.Budget(epsilon=1.0, delta=1e-6), 3, max_items_per_user=2, **asked)
assert planned.mechanism.kind == "stable_counts" and 0.5 < planned.recommended.expected.recall <= 1, planned
try:
    dps.plan(acc.Budget(epsilon=1.0, delta=1e-6), 3, **asked)
except acc.AccountingError as error:
    assert "l0" in str(error), error
else:
    raise AssertionError("planned without a bound on the items of a user")
for mechanism in (tiny, counts):
    table = Config.model_validate({"release": {"mechanism": json.loads(mechanism.to_json())}})
    assert table.release.mechanism == mechanism

# The ledger is charged with a curve of the package, and a release with values comes out.
ledger = acc.Ledger.open("sqlite:///tiny.db")
ledger.create_dataset("visits", acc.Budget(epsilon=100.0, delta=1e-3), "add_remove")
session = dps.Session.open("sqlite:///tiny.db", "visits")
session.select(tiny, dps.Scores([3, 9000], sensitivity=dps.Sensitivity()))
seen = dps.Scores([9000, 5000], sensitivity=dps.Sensitivity(l0=2), domain="observed", labels=["zoo", "park"])
released = session.select(counts, seen)
assert released.labels == ("park", "zoo") and len(released.values) == 2, released

# A log is read for it, within its bound on the items of a user.
import pandas as pd
visits = pd.DataFrame({"user": [*range(900), *range(500)], "item": ["zoo"] * 900 + ["park"] * 500})
asked = {"user": "user", "item": "item", "k": 3, "epsilon": 1.0, "delta": 1e-6, "max_items_per_user": 2}
answer = dps.topk(visits, mechanism="stable_counts", **asked)
assert sorted(answer.items) == ["park", "zoo"] and answer.mechanism.l0 == 2, answer
"""  # noqa: E501
LEDGER_ALONE = """
import sys
import accounting as acc

with acc.Ledger.open("sqlite:///tiny.db", create=False) as ledger:
    assert ledger.verify().ok
    entries = [entry for entry in ledger.entries("visits") if entry.curve]
    curves = [acc.Curve.from_json(entry.curve) for entry in entries]
    assert type(curves[0]).__name__ == "TinyCurve"
    assert curves[0].epsilon(0.0) == 1.0
assert "dpselect" not in sys.modules
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder on the path with the modules of the package `tiny` and the record of its
    installation.
    """
    folder = tmp_path_factory.mktemp("site")
    (folder / "stable_counts.py").write_text(STABLE_COUNTS)
    (folder / "half_sech.py").write_text(HALF_SECH)
    (folder / "tiny_max.py").write_text(TINY_MAX)
    (folder / "tiny_curve.py").write_text(TINY_CURVE)
    record = folder / "tiny-0.1.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny\nVersion: 0.1\n")
    (record / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder


def _run(program: str, package: Path) -> None:
    paths = os.pathsep.join([str(package), *(path for path in sys.path if path)])
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=package,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_an_installed_package_adds_a_mechanism_and_a_curve(package: Path) -> None:
    """All that know of mechanisms know those of the package, once they are asked for; the ledger
    re-reports without dpselect.
    """
    _run(KNOWN_EVERYWHERE, package)
    _run(LEDGER_ALONE, package)
