"""`dpselect ledger ...`: the whole life of a ledger from a shell."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import accounting as acc
import dpselect as dps
from accounting.ledger import Ledger
from dpselect.app.cli.ledger import app

PURE = acc.PureDP(epsilon=0.4).to_json()
BARE = ("--curve", PURE, "--relation", "add_remove")
ON = ("charge", "--dataset", "clicks")
GAUSSIAN = json.dumps({"kind": "gaussian_dp", "mu": 0.05})


class Shell:
    """Runs `dpselect ledger ... --ledger URL`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder / 'privacy.db'}"

    def run(self, *arguments: str, status: int = 0) -> str:
        """The output of a command that ends with this status, in one line."""
        done = CliRunner().invoke(app, [*arguments, "--ledger", self.url])
        assert done.exit_code == status, done.output
        return " ".join(done.output.split())

    def lines(self, *arguments: str) -> list[str]:
        """The lines of its output."""
        return CliRunner().invoke(app, [*arguments, "--ledger", self.url]).output.splitlines()

    def shown(self, *arguments: str) -> Any:
        """What `show --json` prints of the first dataset."""
        return json.loads(self.run("show", "--json", *arguments))["datasets"][0]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A ledger with a dataset "clicks" of epsilon 1."""
    made = Shell(tmp_path)
    made.run("init", "--dataset", "clicks", "--epsilon", "1", "--unit", "visitor", "--actor", "ada")
    return made


def test_a_charge_from_the_shell(shell: Shell, tmp_path: Path) -> None:
    """A dataset is declared once; curves, mechanisms and events are charged, from text or a file,
    once for a key, as they fit.
    """
    assert "already declared" in shell.run(
        "init", "--dataset", "clicks", "--epsilon", "9", status=1
    )
    assert "1 dataset(s)" in shell.run("init")
    file = tmp_path / "mechanism.json"
    file.write_text(dps.ExponentialMechanism(epsilon=0.2, sensitivity=dps.Sensitivity()).to_json())
    assert "committed" in shell.run(*ON, *BARE, "--key", "a", "--label", "daily")
    assert "nothing was charged again" in shell.run(*ON, *BARE, "--key", "a")
    shell.run(*ON, "--mechanism", f"@{file}", "--count", "2")
    assert "2 fit" not in shell.run(*ON, *BARE, status=3)
    state = shell.shown()
    assert state["unit"] == "visitor"
    assert state["periods"][0]["remaining"]["main"] == pytest.approx(0.2)
    assert [entry["key"] for entry in state["latest"]][1] == "a"
    shell.run("init", "--dataset", "training", "--epsilon", "8", "--delta", "1e-5")
    sgd = (
        "charge",
        "--dataset",
        "training",
        "--noise-multiplier",
        "1.1",
        "--sampling-rate",
        "0.01",
        "--steps",
        "1000",
    )
    assert "left: " in shell.run(*sgd)
    file.write_text('{"event": "Gaussian", "noise_multiplier": 20}')
    shell.run(*sgd[:3], "--event", str(file))
    with Ledger.open(shell.url) as ledger:
        first, second = (
            acc.Curve.from_json(entry.curve or "") for entry in ledger.entries("training")
        )
    assert first == acc.from_dp_event(acc.dp_events.dp_sgd(1.1, 0.01, 1000), "add_remove")
    assert second.rho == pytest.approx(0.05**2 / 2)
    assert "go together" in shell.run(*sgd[:7], status=2)
    assert "stated once" in shell.run(*sgd, "--event", str(file), status=2)
    file.write_text('{"event": "os.system", "command": "true"}')
    assert "must be one of Composed" in shell.run(*sgd[:3], "--event", str(file), status=1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (ON, "stated once"),
        ((*ON, *BARE, "--mechanism", "{}"), "stated once"),
        ((*ON, "--curve", "{}"), "kind"),
        ((*ON, "--curve", PURE), "relation"),
        ((*ON, "--curve", '{"kind":"os.system"}'), "os.system"),
        ((*ON, "--mechanism", "@no such file"), "no such file"),
        ((*ON, *BARE, "--period", "2024-01"), "period"),
        (("affordable", "--dataset", "clicks"), "stated once"),
        (("affordable", "--dataset", "clicks", *BARE[:2], "--event", "x"), "stated once"),
        (("affordable", "--dataset", "other", *BARE[:2]), "other"),
        (("quota", "--dataset", "clicks"), "--name is missing"),
        (("quota", "--dataset", "clicks", "--name", "x", "--withdraw", "--rho", "1"), "alone"),
    ],
)
def test_a_wrong_request_is_one_line(shell: Shell, arguments: tuple[str, ...], said: str) -> None:
    """It ends with an error line that says what is wrong, a status above 0 and no entry."""
    done = CliRunner().invoke(app, [*arguments, "--ledger", shell.url])
    assert done.exit_code in (1, 2)
    assert done.output.count("error:") == 1
    assert said in done.output
    assert "Traceback" not in done.output
    assert shell.shown()["latest"] == []


def test_a_ledger_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    """Only init and import make a ledger: any other verb on a mistyped path fails and leaves no
    file.
    """
    for arguments in (["show"], ["verify"], ["heads"], [*ON, *BARE]):
        assert "error:" in Shell(tmp_path).run(*arguments, status=1)
    assert list(tmp_path.iterdir()) == []


def test_a_reservation_is_voided_from_the_shell(shell: Shell) -> None:
    """What Python reserves a shell gives back, but not after the commit."""
    with Ledger.open(shell.url) as ledger:
        for key in ("used", "unused"):
            ledger.reserve("clicks", acc.Curve.from_json(PURE), relation="add_remove", key=key)
        ledger.commit("clicks", "used")
    void = ["--actor", "ada", "--reason", "cancelled"]
    assert "void" in shell.run("void", *ON[1:], "--key", "unused", *void)
    assert "stays charged" in shell.run("void", *ON[1:], "--key", "used", *void, status=1)
    assert shell.shown()["periods"][0]["spent"]["main"] == 4 * 10**11


def test_show_is_for_people(shell: Shell) -> None:
    """In three figures; control characters are shown by their code."""
    assert "used: 0%; cost as charged: nothing; left: all of it" in shell.run("show")
    with Ledger.open(shell.url) as ledger:
        ledger.charge(
            "clicks", acc.PureDP(epsilon=0.25), relation="add_remove", label="evil \u202e label"
        )
        ledger.reserve("clicks", acc.PureDP(epsilon=0.1), relation="add_remove", key="back")
        ledger.void("clicks", "back", actor="ada", reason="no data")
    brief = shell.run("show")
    said = (
        "add_remove, unit: visitor budget: epsilon 1 used: 25%; "
        "cost as charged: epsilon 0.25; left: 7 more releases like the last one "
    )
    for words in (said, "charge, 1 run, 25% of the budget", "void, 10% given back"):
        assert words in brief
    assert "\u202e" not in brief


def test_show_lists_the_latest_periods(shell: Shell) -> None:
    """One line for each, and how many are left out; how many more fit is said of the last release
    that cost something.
    """
    show = ("show", "--dataset", "months")
    with Ledger.open(shell.url) as ledger:
        ledger.create_dataset(
            "months", acc.Budget(epsilon=1.0, delta=1e-6), "add_remove", window="month"
        )
        assert (
            "budget: epsilon 1, delta 1e-6 for each month used: 0%; cost as charged: nothing"
            in shell.run(*show)
        )
        for month in range(1, 15):
            curve = acc.ApproxDP(epsilon=0.001 * month, delta=2e-7)
            period = f"20{24 + (month - 1) // 12}-{(month - 1) % 12 + 1:02}"
            ledger.charge("months", curve, relation="add_remove", period=period)
        told = shell.run(*show)
        assert "2 earlier periods. See --json 2024-03: used: " in told
        assert re.search(
            r"2025-02: used: [\d.]+%; cost as charged: epsilon [\d.]+, delta 2e-7; left: \d+ more"
            r" releases? like the last one",
            told,
        )
        ledger.charge("months", acc.PureDP(epsilon=0.0), relation="add_remove", period="2025-02")
        # What costs nothing, the mark of a horizon's period for example, says nothing of how many
        # more fit.
        assert told.partition("Latest")[0] == shell.run(*show).partition("Latest")[0]


def test_show_as_data_has_what_is_left_in_every_unit(shell: Shell) -> None:
    """The three figures, the odometer's epsilon and the Gaussian release that still fits, as the
    ledger says them.
    """
    with Ledger.open(shell.url) as ledger:
        ledger.create_dataset(
            "months", acc.Budget(epsilon=1.0, delta=1e-6), "add_remove", window="month"
        )
        curve = acc.Approximate(curve=acc.BoundedRange(epsilon=0.1), delta0=1e-8)
        ledger.charge(
            "months",
            curve,
            relation="add_remove",
            period="2024-01",
            label="best places of the week, by district",
        )
        left = ledger.total("months", "2024-01")
    period = shell.shown("--dataset", "months")["periods"][0]
    assert period["figures"] == left.as_data()
    assert (period["remaining"]["epsilon"], period["remaining"]["mu"]) == (
        left.epsilon_left,
        left.mu_left,
    )


@pytest.mark.fast(1)
@pytest.mark.parametrize(
    ("options", "more", "words"),
    [
        (["--order", "gaussian"], {"order": "gaussian"}, "for Gaussian noise (μ² is added up)"),
        (["--order", "12.5"], {"order": 12.5}, "budget: epsilon 1, delta 1e-6"),
        (["--only", GAUSSIAN], {"release": acc.GaussianDP(mu=0.05)}, "for releases of gaussian dp"),
        (["--mostly", GAUSSIAN], None, "for Gaussian noise"),
    ],
    ids=["gaussian", "an order", "one release", "a workload"],
)
def test_init_says_what_charges_are_added_up_in(
    shell: Shell, options: list[str], more: Any, words: str
) -> None:
    """As `Budget` does, of one unit only: and every verb speaks of it."""
    asked: Any = {"epsilon": 1.0, "delta": 1e-6}
    workload = acc.Budget.for_workload(**asked, curve=acc.GaussianDP(mu=0.05))
    budget = workload if more is None else acc.Budget(**asked, **more)
    init = ("init", "--dataset", "noisy", "--epsilon", "1", "--delta", "1e-6", *options)
    assert "give one of them" in shell.run(
        *init, "--mostly" if "--only" in options else "--only", GAUSSIAN, status=2
    )
    shell.run(*init)
    assert acc.Budget(**shell.shown("--dataset", "noisy")["budget"]) == budget
    most = budget.how_many(acc.GaussianDP(mu=0.05))
    charged = shell.run(
        "charge", "--dataset", "noisy", "--relation", "add_remove", "--curve", GAUSSIAN
    )
    said = shell.run("show", "--dataset", "noisy")
    assert words in said
    assert f"left: {most - 1:,} more release" in charged
    assert f"left: {most - 1:,} more release" in said
    assert "no problems" in shell.run("verify")


@pytest.mark.slow
def test_init_takes_a_unit_of_a_mechanism(shell: Shell, tmp_path: Path) -> None:
    """A mechanism or its file stands for its curve, an (epsilon, delta) is needed, and another
    release does not fit.
    """
    asked = ["init", "--dataset", "x", "--epsilon", "1", "--delta", "1e-6"]
    assert "gaussian" in shell.run(*asked, "--order", "normal", status=2)
    assert "--delta" in shell.run(*asked[:5], "--mostly", GAUSSIAN, status=2)
    (tmp_path / "m.json").write_text(dps.ReportNoisyMax(noise="gumbel", scale=20.0).to_json())
    shell.run(*asked, "--only", f"@{tmp_path / 'm.json'}")
    loose = json.dumps({"kind": "approx_dp", "epsilon": 0.5, "delta": 1e-3})
    refused = shell.run(
        "charge", "--dataset", "x", "--relation", "add_remove", "--curve", loose, status=2
    )
    assert "declared for releases of BoundedRange" in refused


@pytest.mark.slow
def test_what_is_kept_elsewhere_convicts_a_ledger(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Heads and exports, signed or not: verify, import and the page say who signed, and what is
    wrong.
    """
    monkeypatch.chdir(tmp_path)
    public, stranger = (
        CliRunner().invoke(app, ["keygen", "--output", name]).output.strip()
        for name in ("key", "other")
    )
    assert len(public) == 64
    assert Path("key").stat().st_mode & 0o077 == 0
    shell.run("heads", "--sign", "key", "--output", "heads")
    shell.run(*ON, "--mechanism", dps.ExponentialMechanism(epsilon=0.1).to_json())
    assert "cover 0 of them, but not the 1 later" in shell.run(
        "verify", "--heads", "heads", "--trust", public
    )
    assert "signature was not checked" in shell.run("verify", "--heads", "heads")
    assert "another key" in shell.run("verify", "--heads", "heads", "--trust", stranger, status=1)
    monkeypatch.setenv("DPSELECT_HEADS_KEY", Path("other").read_text())
    shell.run("heads", "--output", "later")
    found = json.loads(shell.run("verify", "--heads", "later", "--trust", stranger, "--json"))
    assert (found["ok"], found["covered"]) == (True, 1)
    monkeypatch.setenv("DPSELECT_HEADS_KEY", "secret words")
    assert "secret words" not in shell.run("heads", status=1)
    monkeypatch.delenv("DPSELECT_HEADS_KEY")
    shell.run("heads", "--output", "unsigned")
    assert "not signed" in shell.run("verify", "--heads", "unsigned")
    shell.run("export", "--sign", "key", "--output", "export.jsonl")
    shell.run("export", "--output", "plain.jsonl")
    assert shell.lines("export")[1:] == Path("plain.jsonl").read_text().splitlines()[1:]
    for name, trust, status, said in (
        ("export.jsonl", stranger, 1, "another key"),
        ("export.jsonl", public, 0, "1 entries imported and verified; the trusted key signed them"),
        ("export.jsonl", public, 1, "exists"),
    ):
        done = CliRunner().invoke(
            app, ["import", name, "--ledger", "sqlite:///copy.db", "--trust", trust]
        )
        assert (done.exit_code, said in " ".join(done.output.split())) == (status, True)
    shell.run(
        "report", "--output", "page.html", "--heads", "heads", "--trust", public, "--delta", "1e-7"
    )
    page = Path("page.html").read_text()
    assert page.startswith("<!doctype html>")
    assert all(words in page for words in (public, "Verified", "1e-7", 'href="#theorem-C8"'))
    shell.run("report", "--output", "no.html", "--delta", "2", status=2)
    assert "--no-verify" in shell.run(
        "report", "--output", "no.html", "--no-verify", "--heads", "heads", status=2
    )
    with Ledger.open(shell.url) as ledger, ledger._store.writer() as connection:
        connection.exec_driver_sql("UPDATE dpledger_totals SET main = 0")
    assert "running totals" in shell.run("verify", status=1)
    assert json.loads(shell.run("verify", "--json", status=1))["problems"][0]["kind"] == "total"
    Path("heads").write_text("{}")
    shell.run("verify", "--heads", "heads", status=1)


def test_how_many_more(shell: Shell) -> None:
    """The count of a curve, what runs out first and what to change, in words and as data."""
    shell.run("init", "--dataset", "log", "--epsilon", "1", "--delta", "1e-6")
    curve = acc.Approximate(curve=acc.BoundedRange(epsilon=0.1), delta0=8e-8)
    release = ("affordable", "--dataset", "log", "--curve", curve.to_json())
    told = shell.run(*release)
    for words in (
        "for releases by Approximate",
        "left: 6 more releases like this",
        "failure probability",
        "lower its delta",
    ):
        assert words in told
    assert "as --releases does" in told  # of commands and options alone
    assert "Session" not in told
    found = json.loads(shell.run(*release, "--json"))
    assert (found["one_by_one"], found["runs_out"], found["as_one_plan"]) == (6, "failure", 12)


def test_limits_from_the_shell(shell: Shell) -> None:
    """Caps of a release and of all periods, and quotas: declared, shown, in the way of a charge,
    overridden or withdrawn.
    """
    shell.run("init", "--dataset", "capped", "--epsilon", "3", "--most-per-release", "0.3")
    capped = ("charge", "--dataset", "capped", *BARE)
    assert "--override REASON" in shell.run(*capped, status=3)
    shell.run(*capped, "--override", "census")
    assert shell.shown("--dataset", "capped")["latest"][0]["override"] == "census"
    shell.run(
        "init", "--dataset", "weeks", "--epsilon", "1", "--window", "week", "--most-in-all", "1.5"
    )
    for week, status in (("2024-W01", 0), ("2024-W02", 0), ("2024-W03", 0), ("2024-W04", 3)):
        shell.run("charge", "--dataset", "weeks", *BARE, "--period", week, status=status)
    assert "no quota is declared" in shell.run("quota", "list", "--dataset", "capped")
    names = ("--by", "team", "--among", "maps", "--among", "growth")
    shell.run("quota", "--dataset", "capped", "--name", "teams", "--epsilon", "1", *names)
    assert "not on the list" in shell.run(*capped, "--team", "x", "--override", "y", status=1)
    listed = shell.run("quota", "list", "--dataset", "capped")
    assert "Quota teams for each team of maps, growth over all rows: epsilon 1" in listed
    shell.run(
        "quota", *ON[1:], "--name", "interns", "--epsilon", "0.5", "--by", "team", "--of", "interns"
    )
    shell.run(*ON, *BARE, "--team", "interns")
    assert "quota='interns'" in shell.run(*ON, *BARE, "--team", "interns", status=3)
    (quota,) = shell.shown()["quotas"]
    assert (quota["name"], quota["accounts"][0]["spent"]["main"]) == ("interns", 4 * 10**11)
    said = "epsilon 0.5 interns used: 80%; cost as charged: epsilon 0.4; left: 20% of"
    assert said in shell.run("show")
    shell.run("quota", *ON[1:], "--name", "interns", "--withdraw")
    shell.run(*ON, *BARE, "--team", "interns")


def test_a_batch_is_charged_as_a_whole(shell: Shell, tmp_path: Path) -> None:
    """All lines or none; a retry charges nothing; a line that is wrong is named."""
    file = tmp_path / "batch.jsonl"
    item = {"curve": json.loads(PURE), "relation": "add_remove"}

    def charged(*lines: object, status: int = 0) -> str:
        file.write_text("\n".join(json.dumps(line) for line in lines))
        return shell.run(*ON, "--batch", str(file), "--label", "night", status=status)

    assert "does not fit" in charged(
        *({**item, "key": str(number)} for number in range(3)), status=3
    )
    assert shell.shown()["periods"][0]["spent"]["main"] == 0
    for wrong in (item, {**item, "key": "b", "color": 1}, {"key": "b"}, 3):
        assert "line 2" in charged({**item, "key": "a"}, wrong, status=1)
    assert "count" in charged({**item, "key": "a"}, {**item, "key": "b", "count": 0}, status=1)
    assert "2 charges are made" in charged(
        {**item, "key": "a"}, {**item, "key": "b", "label": "mine"}
    )
    assert "2 of them by an earlier call" in charged({**item, "key": "a"}, {**item, "key": "b"})
    data = shell.shown()
    assert data["periods"][0]["spent"]["main"] == 8 * 10**11
    assert [entry["label"] for entry in data["latest"]] == ["mine", "night"]


# The deployments schema of opendp/deployments-registry-data: what is required of each object, what
# else may stand there.
BASIC = (
    "name data_curators description intended_use data_product_type data_product_region"
    " publication_date"
)
PARTS = "dp_variant privacy_loss deployment_model accounting implementation administrative"
REGISTRY = {
    "": ("url_slug status tier deployment", ""),
    "deployment": ("basic", PARTS),
    "basic": (BASIC, "data_product_sector"),
    "dp_variant": ("", "variant_name data_domain unprotected_quantities"),
    "privacy_loss": (
        "",
        "privacy_unit privacy_unit_details privacy_parameters privacy_parameters_details",
    ),
    "privacy_parameters": ("", "epsilon rho delta"),
    "deployment_model": ("", "model_name actors release_type data_source_type access_type"),
    "accounting": ("", "post_processing composition"),
    "implementation": ("", "preprocessing_and_hyperparameter_tuning mechanisms justification"),
    "administrative": ("registry_authors", "sources notes"),
}


def _require_schema(name: str, value: dict[str, Any]) -> None:
    required, more = (set(names.split()) for names in REGISTRY[name])
    assert required <= set(value) <= required | more, name
    for inner, held in value.items():
        if isinstance(held, dict):
            _require_schema(inner, held)
        elif name == "privacy_parameters":
            assert isinstance(held, float)
        else:
            assert isinstance(
                held, {"tier": int, "data_curators": list, "registry_authors": list}.get(inner, str)
            ), inner


@pytest.mark.slow
def test_an_entry_for_the_registry(shell: Shell, tmp_path: Path) -> None:
    """It has the registry's fields, says what the ledger knows, and marks what a person has
    to add.
    """
    yaml = pytest.importorskip("yaml")
    months = 'mon"ths: #1'
    shell.run(
        "init",
        "--dataset",
        months,
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--window",
        "month",
        "--unit",
        "household",
    )
    with Ledger.open(shell.url) as ledger:  # what is given back never ran
        key = ledger.reserve(
            months, acc.PureDP(epsilon=0.1), relation="add_remove", period="2024-01"
        ).key
        ledger.void(months, key, actor="ana", reason="not run")
    for name, more in (("clicks", []), (months, ["--period", "2024-01"])):
        file = tmp_path / f"{len(name)}.yaml"
        shell.run("charge", "--dataset", name, *BARE, *more)
        assert "--delta" in shell.run(
            "report", "--registry", name, "--output", str(file), "--delta", "1e-6", status=2
        )
        shell.run("report", "--registry", name, "--output", str(file))
        read = yaml.safe_load(file.read_text())
        _require_schema("", read)
        known = read["deployment"]
        assert (read["status"], known["basic"]["name"]) == ("Draft", name)
        assert known["basic"]["data_curators"][0].startswith("TO FILL IN")
        assert (
            datetime.fromisoformat(known["basic"]["publication_date"]).date()
            == datetime.now(UTC).date()
        )
        schema = Path(__file__).parents[5] / "shared" / "registry" / "schema.yaml"
        if schema.exists():  # the registry's own schema, which is not the project's to bring
            jsonschema = pytest.importorskip("jsonschema")
            found = jsonschema.Draft202012Validator(yaml.safe_load(schema.read_text())).iter_errors(
                read
            )
            assert [error.message for error in found] == []
    assert known["dp_variant"]["variant_name"] == "Approximate DP"
    assert read["url_slug"] == "mon-ths---1"
    loss = known["privacy_loss"]
    assert (loss["privacy_unit"], loss["privacy_parameters"]) == (
        "household",
        {"epsilon": 1.0, "delta": 1e-6},
    )
    assert "for the rows of each month" in loss["privacy_parameters_details"]
    assert "budget: epsilon 1, delta 1e-6; used: " in loss["privacy_parameters_details"]
    assert "1 x pure dp: ε = 0.4" in known["implementation"]["mechanisms"]
    assert "ε = 0.1" not in known["implementation"]["mechanisms"]
    assert "is not declared" in shell.run(
        "report", "--registry", "nobody", "--output", str(tmp_path / "x.yaml"), status=1
    )
    assert not (tmp_path / "x.yaml").exists()
