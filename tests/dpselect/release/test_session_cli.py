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
from dpselect.cli.ledger import app

PURE = acc.PureDP(epsilon=0.4).to_json()
BARE = ("--curve", PURE, "--relation", "add_remove")


class Shell:
    """Runs `dpselect ledger ... --ledger URL`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder / 'privacy.db'}"

    def run(self, *arguments: str, status: int = 0) -> str:
        """The output of a command that ends with this status."""
        done = CliRunner().invoke(app, [*arguments, "--ledger", self.url])
        assert done.exit_code == status, done.output
        return done.output


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A ledger with a dataset "clicks" of epsilon 1."""
    made = Shell(tmp_path)
    made.run("init", "--dataset", "clicks", "--epsilon", "1", "--unit", "visitor", "--actor", "ada")
    return made


def shown(shell: Shell, *arguments: str) -> Any:
    """What `show --json` prints of the first dataset."""
    return json.loads(shell.run("show", "--json", *arguments))["datasets"][0]


def test_init_declares_once(shell: Shell) -> None:
    """A second declaration under the name fails; init without a dataset only makes the ledger."""
    assert "already declared" in shell.run("init", "--dataset", "clicks", "--epsilon", "9", status=1)
    assert "1 dataset(s)" in shell.run("init")
    assert shown(shell)["unit"] == "visitor"


def test_a_charge_from_the_shell(shell: Shell, tmp_path: Path) -> None:
    """Curves and mechanisms are charged from text or a file; a key charges once; what does not fit fails with status 3."""
    file = tmp_path / "mechanism.json"
    file.write_text(dps.ExponentialMechanism(epsilon=0.2, sensitivity=dps.Sensitivity()).to_json())
    assert "committed" in shell.run("charge", "--dataset", "clicks", *BARE, "--key", "a", "--label", "daily")
    assert "nothing was charged again" in shell.run("charge", "--dataset", "clicks", *BARE, "--key", "a")
    shell.run("charge", "--dataset", "clicks", "--mechanism", f"@{file}", "--count", "2")
    assert "2 fit" not in shell.run("charge", "--dataset", "clicks", *BARE, status=3)
    state = shown(shell)
    assert state["periods"][0]["remaining"]["main"] == pytest.approx(0.2)
    assert [entry["key"] for entry in state["latest"]][1] == "a"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        [*BARE, "--mechanism", "{}"],
        ["--curve", "{}"],
        ["--curve", PURE],
        ["--curve", '{"kind":"os.system"}'],
        ["--mechanism", "@no such file"],
        [*BARE, "--period", "2024-01"],
    ],
)
def test_what_cannot_be_charged_is_one_line(shell: Shell, arguments: list[str]) -> None:
    """A wrong request ends with an error line, a status above 0 and no entry."""
    done = CliRunner().invoke(app, ["charge", "--ledger", shell.url, "--dataset", "clicks", *arguments])
    assert done.exit_code in (1, 2)
    assert done.output.count("error:") == 1
    assert "Traceback" not in done.output
    assert shown(shell)["latest"] == []


def test_a_reservation_from_the_shell(shell: Shell) -> None:
    """reserve, commit and release, or reserve and void: the states of the ledger, and no way back after the commit."""
    for key in ("used", "unused"):
        assert "reserved" in (told := shell.run("charge", "--dataset", "clicks", *BARE, "--reserve", "--key", key))
    assert "budget: epsilon 1; spent so far: epsilon 0.8; left: 0 more releases like this one" in told
    assert "committed" in shell.run("commit", "--dataset", "clicks", "--key", "used")
    assert "released" in shell.run("release", "--dataset", "clicks", "--key", "used")
    void = ["--actor", "ada", "--reason", "cancelled"]
    assert "void" in shell.run("void", "--dataset", "clicks", "--key", "unused", *void)
    assert "stays charged" in shell.run("void", "--dataset", "clicks", "--key", "used", *void, status=1)
    assert shown(shell)["periods"][0]["spent"]["main"] == 4 * 10**11


def test_show_is_for_people(shell: Shell) -> None:
    """In three figures, or in the accountant's units; control characters are shown by their code."""
    assert "spent so far: nothing; left: all of it\n" in shell.run("show")
    with Ledger.open(shell.url) as ledger:
        ledger.charge("clicks", acc.PureDP(epsilon=0.25), relation="add_remove", label="evil \u202e label")
        ledger.reserve("clicks", acc.PureDP(epsilon=0.1), relation="add_remove", key="back")
        ledger.void("clicks", "back", actor="ada", reason="no data")
    brief, details = shell.run("show"), shell.run("show", "--details")
    assert (
        "add_remove, unit: visitor\nbudget: epsilon 1\nspent so far: epsilon 0.25; left: 7 more releases like the last one\n"
        in brief
    )
    assert "charge, 1 run, 25.0 % of the budget\n" in brief
    assert "void, 10.0 % given back\n" in brief
    assert all(word in details for word in ("0.25", "0.75", "25.0 %", "charge, 1 run, 0.25 nats"))
    assert "\u202e" not in brief + details


def test_show_lists_the_latest_periods(shell: Shell) -> None:
    """One line for each, and how many are left out; how many more fit is said of the last release that cost something."""
    with Ledger.open(shell.url) as ledger:
        ledger.create_dataset("months", acc.Budget(epsilon=1.0, delta=1e-6), "add_remove", window="month")
        assert "budget: epsilon 1, delta 1e-06 for each month\nspent so far: nothing\n" in shell.run(
            "show", "--dataset", "months"
        )
        for month in range(1, 15):
            curve = acc.ApproxDP(epsilon=0.001 * month, delta=2e-7)
            period = f"20{24 + (month - 1) // 12}-{(month - 1) % 12 + 1:02}"
            ledger.charge("months", curve, relation="add_remove", period=period)
        text = shell.run("show", "--dataset", "months")
        assert "2 earlier periods: see --details\n2024-03: spent so far: epsilon " in text
        told = " ".join(text.split())
        assert re.search(r"2025-02: spent so far: epsilon [\d.]+, delta 1e-06; left: \d+ more releases? like the last one", told)
        ledger.charge("months", acc.PureDP(epsilon=0.0), relation="add_remove", period="2025-02")
        # What costs nothing, the mark of a horizon's period for example, says nothing of how many more fit.
        assert told.partition("Latest")[0] == " ".join(shell.run("show", "--dataset", "months").split()).partition("Latest")[0]


GAUSSIAN = json.dumps({"kind": "gaussian_dp", "mu": 0.05})


@pytest.mark.fast(1)
@pytest.mark.parametrize(
    ("options", "budget", "words"),
    [
        (["--order", "gaussian"], acc.Budget(epsilon=1.0, delta=1e-6, order="gaussian"), "for Gaussian noise (μ² is added up)"),
        (["--order", "12.5"], acc.Budget(epsilon=1.0, delta=1e-6, order=12.5), "budget: epsilon 1, delta 1e-06"),
        (
            ["--only", GAUSSIAN],
            acc.Budget(epsilon=1.0, delta=1e-6, release=acc.GaussianDP(mu=0.05)),
            "for releases of gaussian dp",
        ),
        (
            ["--mostly", GAUSSIAN],
            acc.Budget.for_workload(epsilon=1.0, delta=1e-6, curve=acc.GaussianDP(mu=0.05)),
            "for Gaussian noise",
        ),
    ],
    ids=["gaussian", "an order", "one release", "a workload"],
)
def test_init_says_what_charges_are_added_up_in(shell: Shell, options: list[str], budget: acc.Budget, words: str) -> None:
    """As `Budget` does: and every verb speaks of it."""
    shell.run("init", "--dataset", "noisy", "--epsilon", "1", "--delta", "1e-6", *options)
    assert acc.Budget(**shown(shell, "--dataset", "noisy")["budget"]) == budget
    most = budget.how_many(acc.GaussianDP(mu=0.05))
    charged = shell.run("charge", "--dataset", "noisy", "--relation", "add_remove", "--curve", GAUSSIAN)
    assert f"left: {most - 1:,} more release" in charged
    said = " ".join(shell.run("show", "--dataset", "noisy").split())
    assert words in said
    assert f"left: {most - 1:,} more release" in said
    assert "no problems" in shell.run("verify")


@pytest.mark.slow
def test_init_takes_one_unit(shell: Shell, tmp_path: Path) -> None:
    """One of --order, --mostly and --only, of an (epsilon, delta); a mechanism or its file stands for its curve."""
    asked = ["init", "--dataset", "x", "--epsilon", "1", "--delta", "1e-6"]
    assert "give one of them" in shell.run(*asked, "--order", "gaussian", "--only", GAUSSIAN, status=2)
    assert "gaussian" in shell.run(*asked, "--order", "normal", status=2)
    assert "--delta" in shell.run("init", "--dataset", "x", "--epsilon", "1", "--mostly", GAUSSIAN, status=2)
    mechanism = dps.ReportNoisyMax(noise="gumbel", scale=20.0)
    (tmp_path / "m.json").write_text(mechanism.to_json())
    shell.run(*asked, "--only", f"@{tmp_path / 'm.json'}")
    loose = json.dumps({"kind": "approx_dp", "epsilon": 0.5, "delta": 1e-3})
    refused = shell.run("charge", "--dataset", "x", "--relation", "add_remove", "--curve", loose, status=2)
    assert "declared for releases of BoundedRange" in refused


def test_show_fits_a_terminal_of_80_columns(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers and heads stand unbroken in 80 columns, with the odometer's epsilon and the Gaussian release that still fits."""
    monkeypatch.setenv("COLUMNS", "80")
    with Ledger.open(shell.url) as ledger:
        ledger.create_dataset("months", acc.Budget(epsilon=1.0, delta=1e-6), "add_remove", window="month")
        curve = acc.Approximate(curve=acc.BoundedRange(epsilon=0.1), delta0=1e-8)
        ledger.charge("months", curve, relation="add_remove", period="2024-01", label="best places of the week, by district")
        left = ledger.total("months", "2024-01")
    lines = shell.run("show", "--details", "--dataset", "months").splitlines()
    assert max(len(line) for line in lines) <= 80
    assert any(
        line.split() == ["2024-01", "0.0272", "0.5063", "5.1", "%", "1e-8/5e-7", "0.679", "0.5063", "0.2086"] for line in lines
    )
    assert any("ε so far  ε left  μ left" in line for line in lines)
    period = shown(shell, "--dataset", "months")["periods"][0]
    assert period["figures"] == left.as_data()
    assert (period["remaining"]["epsilon"], period["remaining"]["mu"]) == (left.epsilon_left, left.mu_left)


@pytest.mark.slow
def test_verify_says_what_it_found(shell: Shell, tmp_path: Path) -> None:
    """verify ends with status 0 on a sound ledger and 1 on any other, in words or as JSON, also against earlier heads."""
    shell.run("charge", "--dataset", "clicks", *BARE)
    heads = tmp_path / "heads.json"
    shell.run("heads", "--output", str(heads))
    assert "checked: no problems" in shell.run("verify", "--heads", str(heads))
    assert json.loads(shell.run("verify", "--json"))["ok"] is True
    with Ledger.open(shell.url) as ledger, ledger._store.writer() as connection:
        connection.exec_driver_sql("UPDATE dpledger_totals SET main = 0")
    assert "running totals" in " ".join(shell.run("verify", status=1).split())
    assert json.loads(shell.run("verify", "--json", status=1))["problems"][0]["kind"] == "total"
    heads.write_text("{}")
    shell.run("verify", "--heads", str(heads), status=1)


@pytest.mark.slow
def test_export_and_import(shell: Shell, tmp_path: Path) -> None:
    """What export writes, import restores elsewhere; without a file it goes to standard output."""
    shell.run("charge", "--dataset", "clicks", *BARE)
    lines = tmp_path / "ledger.jsonl"
    shell.run("export", "--output", str(lines))
    assert shell.run("export").splitlines()[1:] == lines.read_text().splitlines()[1:]
    copy = Shell(tmp_path / "copy")
    copy.folder.mkdir()
    assert "1 entries imported" in copy.run("import", str(lines))
    assert shown(copy) == shown(shell)
    assert "exists" in copy.run("import", str(lines), status=1)


def test_report_writes_a_page(shell: Shell, tmp_path: Path) -> None:
    """report verifies first and writes one HTML page; an odd delta is refused."""
    page = tmp_path / "report.html"
    shell.run("report", "--output", str(page), "--delta", "1e-7")
    text = page.read_text()
    assert text.startswith("<!doctype html>")
    assert "Verified" in text
    assert "1e-7" in text
    shell.run("report", "--output", str(page), "--delta", "2", status=2)


def test_a_ledger_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    """Only init and import make a ledger: any other verb on a mistyped path fails and leaves no file."""
    shell = Shell(tmp_path)
    for arguments in (["show"], ["verify"], ["heads"], ["charge", "--dataset", "clicks", *BARE]):
        assert "error:" in shell.run(*arguments, status=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_how_many_more(shell: Shell, tmp_path: Path) -> None:
    """The count of the release that topk would make, what runs out first and what to change; from options or topk's own file."""
    shell.run("init", "--dataset", "log", "--epsilon", "1", "--delta", "1e-6")
    release = ("--epsilon", "0.2", "--delta", "1e-7", "--k", "10", "--mechanism", "limited_domain")
    told = shell.run("affordable", "--dataset", "log", *release)
    assert "for releases by LimitedDomain" in told
    assert "left: 6 more releases like this one" in told
    assert "failure probability" in told
    assert "lower its delta" in told
    found = json.loads(shell.run("affordable", "--dataset", "log", *release, "--json"))
    assert (found["one_by_one"], found["runs_out"], found["as_one_plan"]) == (6, "failure", 13)
    mechanism = dps.ExponentialMechanism(epsilon=0.25, sensitivity=dps.Sensitivity()).to_json()
    shell.run("charge", "--dataset", "clicks", "--mechanism", mechanism)
    file = tmp_path / "plan.toml"
    file.write_text(f"""ledger = {{url = "{shell.url}", dataset = "clicks"}}
budget = {{epsilon = 1}}
[release]
k = 1
[release.mechanism]
kind = "permute_and_flip"
epsilon = 0.25
sensitivity = {{}}
""")
    assert json.loads(shell.run("affordable", "--config", str(file), "--json"))["one_by_one"] == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--k", "3", "--epsilon", "0.1"), "--dataset go together"),
        (("--dataset", "clicks", "--epsilon", "0.1"), "--k is missing"),
        (("--dataset", "clicks", "--k", "3"), "the budget of one release"),
        (("--dataset", "clicks", "--k", "3", "--epsilon", "0.1"), "--delta is missing"),
        (("--dataset", "clicks", "--k", "3", "--epsilon", "-1"), "must be a finite number above 0"),
        (("--dataset", "other", "--k", "3", "--epsilon", "0.1"), "other"),
    ],
)
def test_how_many_of_what(shell: Shell, arguments: tuple[str, ...], said: str) -> None:
    """A release that topk could not make is refused in one line that says what is missing."""
    refused = CliRunner().invoke(app, ["affordable", *arguments, "--ledger", shell.url])
    assert refused.exit_code in (1, 2)
    assert said in refused.output


@pytest.mark.slow
def test_signed_heads_from_the_shell(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """keygen, heads --sign or the variable, verify --trust; another key's signature ends with status 1."""
    old, new, heads, later = (tmp_path / name for name in ("old", "new", "heads", "later"))
    made = CliRunner().invoke(app, ["keygen", "--output", str(old)])
    public = made.output.strip()
    assert len(public) == 64
    assert old.stat().st_mode & 0o077 == 0
    shell.run("heads", "--sign", str(old), "--output", str(heads))
    shell.run("charge", "--dataset", "clicks", *BARE)
    assert "vouch for 0 of them, and not for the 1 later" in shell.run("verify", "--heads", str(heads), "--trust", public)
    assert "signature was not checked" in shell.run("verify", "--heads", str(heads))
    other = CliRunner().invoke(app, ["keygen", "--output", str(new)]).output.strip()
    monkeypatch.setenv("DPSELECT_HEADS_KEY", new.read_text())
    shell.run("heads", "--output", str(later))
    assert "another key" in " ".join(shell.run("verify", "--heads", str(later), "--trust", public, status=1).split())
    found = json.loads(shell.run("verify", "--heads", str(later), "--trust", other, "--json"))
    assert (found["ok"], found["covered"]) == (True, 1)
    monkeypatch.setenv("DPSELECT_HEADS_KEY", "secret words")
    assert "secret words" not in shell.run("heads", status=1)
    monkeypatch.delenv("DPSELECT_HEADS_KEY")
    assert "not signed" in shell.run("verify", "--heads", str(_unsigned(shell, tmp_path)))


def _unsigned(shell: Shell, folder: Path) -> Path:
    path = folder / "unsigned"
    shell.run("heads", "--output", str(path))
    return path


@pytest.mark.slow
def test_quotas_from_the_shell(shell: Shell) -> None:
    """Declared, shown, in the way of a charge, and withdrawn; what goes with --withdraw is its name."""
    shell.run("quota", "--dataset", "clicks", "--name", "interns", "--epsilon", "0.5", "--by", "team", "--of", "interns")
    shell.run("charge", "--dataset", "clicks", *BARE, "--team", "interns")
    assert "quota='interns'" in shell.run("charge", "--dataset", "clicks", *BARE, "--team", "interns", status=3)
    (quota,) = shown(shell)["quotas"]
    assert (quota["name"], quota["accounts"][0]["spent"]["main"]) == ("interns", 4 * 10**11)
    assert "interns: 0.4 spent, 0.09999 nats" in shell.run("show", "--details").replace("0.1 nats", "0.09999 nats")
    said = "Quota interns for team interns over all rows: epsilon 0.5\n       interns: spent so far: epsilon 0.4; left: 20.0 % of"
    assert said in shell.run("show")
    assert "alone" in shell.run("quota", "--dataset", "clicks", "--name", "interns", "--withdraw", "--rho", "1", status=2)
    shell.run("quota", "--dataset", "clicks", "--name", "interns", "--withdraw")
    shell.run("charge", "--dataset", "clicks", *BARE, "--team", "interns")


def test_a_batch_is_charged_as_a_whole(shell: Shell, tmp_path: Path) -> None:
    """All lines or none; a retry charges nothing; a line that is wrong is named; a reservation may lapse."""
    file = tmp_path / "batch.jsonl"
    item = {"curve": json.loads(PURE), "relation": "add_remove"}

    def charged(*lines: object, status: int = 0) -> str:
        file.write_text("\n".join(json.dumps(line) for line in lines))
        return shell.run("charge", "--dataset", "clicks", "--batch", str(file), "--label", "night", status=status)

    assert "none fits" in charged(*({**item, "key": str(number)} for number in range(3)), status=3)
    assert shown(shell)["periods"][0]["spent"]["main"] == 0
    for wrong in (item, {**item, "key": "b", "colour": 1}, {"key": "b"}, 3):
        assert "line 2" in charged({**item, "key": "a"}, wrong, status=1)
    assert "count" in charged({**item, "key": "a"}, {**item, "key": "b", "count": 0}, status=1)
    assert "2 charges are made" in charged({**item, "key": "a"}, {**item, "key": "b", "label": "mine"})
    assert "2 of them by an earlier call" in charged({**item, "key": "a"}, {**item, "key": "b"})
    data = shown(shell)
    assert data["periods"][0]["spent"]["main"] == 8 * 10**11
    assert [entry["label"] for entry in data["latest"]] == ["mine", "night"]
    assert "--reserve" in shell.run("charge", "--dataset", "clicks", *BARE, "--expires-in", "9", status=2)


@pytest.mark.slow
def test_signed_heads_a_signed_export_and_a_report_of_it(shell: Shell, tmp_path: Path) -> None:
    """A stranger's key is convicted; exports are signed and checked; the page says who signed."""
    shell.run("charge", "--dataset", "clicks", "--mechanism", dps.ExponentialMechanism(epsilon=0.1).to_json())
    key, heads, out = tmp_path / "k.pem", str(tmp_path / "heads.json"), tmp_path / "export.jsonl"
    public = CliRunner().invoke(app, ["keygen", "--output", str(key)]).output.strip()
    stranger = CliRunner().invoke(app, ["keygen", "--output", str(tmp_path / "other.pem")]).output.strip()
    shell.run("heads", "--sign", str(key), "--output", heads)
    assert "checked: no problems" in shell.run("verify", "--heads", heads, "--trust", public)
    assert "another key" in shell.run("verify", "--heads", heads, "--trust", stranger, status=1)
    shell.run("export", "--sign", str(key), "--output", str(out))
    copy = ["import", str(out), "--ledger", f"sqlite:///{tmp_path / 'copy.db'}", "--trust"]
    assert CliRunner().invoke(app, [*copy, stranger]).exit_code == 1
    assert "the trusted key signed them" in CliRunner().invoke(app, [*copy, public]).output
    page = tmp_path / "page.html"
    shell.run("report", "--output", str(page), "--heads", heads, "--trust", public)
    assert public in page.read_text()
    assert 'href="#theorem-C8"' in page.read_text()
    refused = shell.run("report", "--output", str(tmp_path / "no.html"), "--no-verify", "--heads", heads, status=2)
    assert "--no-verify" in refused


# The deployments schema of opendp/deployments-registry-data: what is required of each object, what else may stand there.
REGISTRY: dict[str, tuple[set[str], set[str]]] = {
    "": ({"url_slug", "status", "tier", "deployment"}, set()),
    "deployment": (
        {"basic"},
        {"dp_variant", "privacy_loss", "deployment_model", "accounting", "implementation", "administrative"},
    ),
    "basic": (
        {"name", "data_curators", "description", "intended_use", "data_product_type", "data_product_region", "publication_date"},
        {"data_product_sector"},
    ),
    "dp_variant": (set(), {"variant_name", "data_domain", "unprotected_quantities"}),
    "privacy_loss": (set(), {"privacy_unit", "privacy_unit_details", "privacy_parameters", "privacy_parameters_details"}),
    "privacy_parameters": (set(), {"epsilon", "rho", "delta"}),
    "deployment_model": (set(), {"model_name", "actors", "release_type", "data_source_type", "access_type"}),
    "accounting": (set(), {"post_processing", "composition"}),
    "implementation": (set(), {"preprocessing_and_hyperparameter_tuning", "mechanisms", "justification"}),
    "administrative": ({"registry_authors"}, {"sources", "notes"}),
}


def _require_schema(name: str, value: dict[str, Any]) -> None:
    required, more = REGISTRY[name]
    assert required <= set(value) <= required | more, name
    for inner, held in value.items():
        if isinstance(held, dict):
            _require_schema(inner, held)
        elif name == "privacy_parameters":
            assert isinstance(held, float)
        else:
            assert isinstance(held, {"tier": int, "data_curators": list, "registry_authors": list}.get(inner, str)), inner


@pytest.mark.slow
def test_an_entry_for_the_registry(shell: Shell, tmp_path: Path) -> None:
    """It has the registry's fields, says what the ledger knows, and marks what a person has to add."""
    yaml = pytest.importorskip("yaml")
    shell.run("init", "--dataset", 'mon"ths: #1', "--epsilon", "1", "--delta", "1e-6", "--window", "month", "--unit", "household")
    with Ledger.open(shell.url) as ledger:  # what is given back never ran
        key = ledger.reserve('mon"ths: #1', acc.PureDP(epsilon=0.1), relation="add_remove", period="2024-01").key
        ledger.void('mon"ths: #1', key, actor="ana", reason="not run")
    for name, more in (("clicks", []), ('mon"ths: #1', ["--period", "2024-01"])):
        shell.run("charge", "--dataset", name, *BARE, *more)
        said = shell.run("report", "--registry", name, "--output", str(tmp_path / "no.yaml"), "--delta", "1e-6", status=2)
        assert "--delta" in said
        shell.run("report", "--registry", name, "--output", str(tmp_path / f"{len(name)}.yaml"))
        read = yaml.safe_load((tmp_path / f"{len(name)}.yaml").read_text())
        _require_schema("", read)
        known = read["deployment"]
        assert (read["status"], known["basic"]["name"]) == ("Draft", name)
        assert known["basic"]["data_curators"][0].startswith("TO FILL IN")
        assert datetime.fromisoformat(known["basic"]["publication_date"]).date() == datetime.now(UTC).date()
        schema = Path(__file__).parents[4] / "shared" / "registry" / "schema.yaml"
        if schema.exists():  # the registry's own schema, which is not the project's to bring
            jsonschema = pytest.importorskip("jsonschema")
            found = jsonschema.Draft202012Validator(yaml.safe_load(schema.read_text())).iter_errors(read)
            assert [error.message for error in found] == []
    assert known["dp_variant"]["variant_name"] == "Approximate DP"
    assert read["url_slug"] == "mon-ths---1"
    loss = known["privacy_loss"]
    assert (loss["privacy_unit"], loss["privacy_parameters"]) == ("household", {"epsilon": 1.0, "delta": 1e-6})
    assert "for the rows of each month" in loss["privacy_parameters_details"]
    assert "budget: epsilon 1, delta 1e-06; spent so far: epsilon" in loss["privacy_parameters_details"]
    assert "1 x pure dp: ε = 0.4" in known["implementation"]["mechanisms"]
    assert "ε = 0.1" not in known["implementation"]["mechanisms"]
    assert "is not declared" in shell.run("report", "--registry", "nobody", "--output", str(tmp_path / "x.yaml"), status=1)
    assert not (tmp_path / "x.yaml").exists()


def test_what_runs_elsewhere_is_charged_by_its_event(shell: Shell, tmp_path: Path) -> None:
    """A file with an event, or the three numbers of DP-SGD, cost what their curve costs; one that is half stated is refused."""
    shell.run("init", "--dataset", "training", "--epsilon", "8", "--delta", "1e-5")
    sgd = ("--noise-multiplier", "1.1", "--sampling-rate", "0.01", "--steps", "1000")
    assert "left: " in shell.run("charge", "--dataset", "training", *sgd)
    file = tmp_path / "event.json"
    file.write_text('{"event": "Gaussian", "noise_multiplier": 20}')
    shell.run("charge", "--dataset", "training", "--event", str(file))
    with Ledger.open(shell.url) as ledger:
        first, second = (acc.Curve.from_json(entry.curve or "") for entry in ledger.entries("training"))
    assert first == acc.from_dp_event(acc.dp_events.dp_sgd(1.1, 0.01, 1000), "add_remove")
    assert second.rho == pytest.approx(0.05**2 / 2)
    assert "go together" in shell.run("charge", "--dataset", "training", *sgd[:4], status=2)
    assert "stated once" in shell.run("charge", "--dataset", "training", *sgd, "--event", str(file), status=2)
    file.write_text('{"event": "os.system", "command": "true"}')
    assert "is none of" in shell.run("charge", "--dataset", "training", "--event", str(file), status=1)


def test_limits_from_the_shell(shell: Shell) -> None:
    """init states caps, charge overrides one with a reason, and quota list shows who may charge and where they stand."""
    shell.run("init", "--dataset", "capped", "--epsilon", "3", "--most-per-release", "0.3")
    assert "--override REASON" in shell.run("charge", "--dataset", "capped", *BARE, status=3)
    shell.run("charge", "--dataset", "capped", *BARE, "--override", "census")
    assert shown(shell, "--dataset", "capped")["latest"][0]["override"] == "census"
    weekly = ("init", "--dataset", "weeks", "--epsilon", "1", "--window", "week", "--most-in-all", "1.5")
    shell.run(*weekly)
    for week, status in (("2024-W01", 0), ("2024-W02", 0), ("2024-W03", 0), ("2024-W04", 3)):
        shell.run("charge", "--dataset", "weeks", *BARE, "--period", week, status=status)
    assert "no quota is declared" in shell.run("quota", "list", "--dataset", "capped")
    names = ("--by", "team", "--among", "maps", "--among", "growth")
    shell.run("quota", "--dataset", "capped", "--name", "teams", "--epsilon", "1", *names)
    assert "not on the list" in shell.run("charge", "--dataset", "capped", *BARE, "--team", "x", "--override", "y", status=1)
    assert "Quota teams for each team of maps, growth over all rows: epsilon 1" in shell.run(
        "quota", "list", "--dataset", "capped"
    )
    assert "--name is missing" in shell.run("quota", "--dataset", "capped", status=2)
