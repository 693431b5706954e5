"""What is installed, and what an import loads: names cost what they need, when they are first
used.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest
from processes import Forked, fresh

import accounting
import dpselect

ROOT = Path(__file__).resolve().parents[1]

# What takes longest to import of all that the packages use.
HEAVY = (
    "scipy.fft",
    "scipy.linalg",
    "scipy.special",
    "scipy.stats",
    "scipy.signal",
    "scipy.sparse",
    "dp_accounting",
    "duckdb",
    "sqlalchemy",
    "sqlalchemy.dialects.postgresql",
    "jinja2",
    *("matplotlib", "pandas", "polars", "psycopg", "pyspark", "sklearn"),
)
CURVES = (
    "acc.LaplaceDP(epsilon=1.0), acc.BoundedRange(epsilon=1.0), acc.GaussianDP(mu=1.0),"
    " acc.ZCDP(rho=0.1)"
)
RELEASE = (
    "dps.OneshotTopK(k=1, noise='gumbel', scale=1.0).select(dps.Scores([5, 1],"
    " sensitivity=dps.Sensitivity()))"
)
DEFAULT = (
    "from dpselect.plan import TopKRequest, default_choice\n"
    "default_choice(acc.Budget(epsilon=1.0, delta=1e-6), TopKRequest(k=10))"
)


STEPS: list[tuple[str, str, set[str]]] = [
    ("import", "import accounting as acc, dpselect as dps, dpselect.app.cli", set()),
    ("curves", CURVES, set()),
    ("a release", RELEASE, set()),
    ("a conversion", "acc.ZCDP(rho=0.1).epsilon(1e-6)", set()),
    ("topk --help", "import dpselect.app.cli.topk", set()),
    ("a default", DEFAULT, {"scipy.special"}),  # tails of noises choose it
    ("ledger", "acc.Ledger", {"scipy.special", "sqlalchemy"}),
    ("ledger show", "import dpselect.app.cli.ledger", {"scipy.special", "sqlalchemy"}),
    (
        "a plan",
        "plan = acc.Accountant().compose(acc.ZCDP(rho=0.1), 3)",
        {"scipy.special", "sqlalchemy"},
    ),
]


def test_an_import_loads_no_more_than_is_used() -> None:
    """Heavy dependencies are loaded by what needs them: an import by none, dp-accounting only where
    it converts.
    """
    lines = [f"import sys\ndef loaded(): print(*sorted(set({HEAVY!r}) & set(sys.modules)))"]
    lines += [f"{code}\nloaded()" for _, code, _ in STEPS]
    code = "\n".join([*lines, "plan.epsilon(1e-6)", "loaded()"])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    *found, converted = (set(line.split()) for line in done.stdout.splitlines())
    for (name, _, allowed), now in zip(STEPS, found, strict=True):
        assert now <= allowed, name
    assert "dp_accounting" in converted


def test_mechanism_kind_is_found_without_importing_others() -> None:
    """A mechanism is found by the words of its kind: that of a file or of an option brings its own
    module and no other.
    """
    script = """
import sys
from dpselect.mechanisms.base import MECHANISMS
assert MECHANISMS.member("peeling_top_k").__name__ == "PeelingTopK"
print({name for name in sys.modules if name.startswith("dpselect.") and name.endswith(("joint", "racing", "voting"))})
"""  # noqa: E501
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "set()\n"


def test_help_waits_for_no_arrays() -> None:
    """The list of commands is there in a tenth of a second: only a command needs what takes longer
    to import.
    """
    script = (
        "import sys\nimport dpselect.app.cli\n"
        "print({'numpy', 'pydantic', 'duckdb'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "set()\n"


@pytest.mark.slow
def test_a_command_ends_without_looking_for_garbage() -> None:
    """The process gives everything back at its end, and does not search what its imports made for
    circles before.
    """
    script = """
import gc
from dpselect.app.cli import main
try:
    main()
except SystemExit as left:
    print(left.code, gc.get_freeze_count() > 20 * len(gc.get_objects()))
"""
    command = [sys.executable, "-c", script, "topk", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.endswith("\n0 True\n")


@pytest.mark.slow
def test_platforms_without_fork_release_and_charge(tmp_path: Path) -> None:
    """Windows has neither os.fork nor fcntl: nothing but the lock of a labeling job asks for more
    than both have.
    """
    script = """
import os, sys
for name in ("fork", "register_at_fork", "fchmod", "getuid"):
    delattr(os, name)
for name in ("fcntl", "resource", "pwd"):
    sys.modules[name] = None
import accounting as acc, dpselect as dps, dpselect.app.cli, dpselect.pate, dpselect.plan, dpselect.ranking
with acc.Ledger.open("sqlite:///privacy.db") as ledger:
    ledger.create_dataset("visits", acc.Budget(rho=9.0, delta=1e-6), "add_remove")
    counts = dps.Scores([5], sensitivity=dps.Sensitivity())
    dps.Session(ledger, "visits").select(dps.OneshotTopK(k=1, noise="gumbel", scale=1.0), counts)
"""  # noqa: E501
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_foreign_accounting_is_detected(tmp_path: Path) -> None:
    """If another distribution's `accounting` is found first, importing dpselect says so and what to
    do.
    """
    (tmp_path / "accounting").mkdir()
    (tmp_path / "accounting" / "__init__.py").write_text("VERSION = 1\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import dpselect"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "shadows" in done.stderr
    assert "virtual" in done.stderr


def test_tests_import_the_installed_packages() -> None:
    """Where an installed wheel is promised, as in .ci/run, neither this process nor another sees
    the checkout.
    """
    code = "import accounting, dpselect; print(accounting.__file__, dpselect.__file__, sep=chr(10))"
    found = {
        accounting.__file__,
        dpselect.__file__,
        *fresh("-c", code).stdout.split(),
        *Forked(code).finish()[1].split(),
    }
    assert len(found) == 2
    if os.environ.get("DPSELECT_TEST_INSTALLED") == "required":
        assert not [name for name in found if Path(str(name)).is_relative_to(ROOT)]


def test_both_packages_are_typed_and_bring_their_files() -> None:
    """Both packages carry py.typed, and the report brings its style and script."""
    for package in ("accounting", "dpselect"):
        assert resources.files(package).joinpath("py.typed").is_file()
    for name in ("report.css", "report.html", "report.js", "parts.html"):
        assert resources.files("accounting.page").joinpath(name).is_file()
