"""`dpselect ledger ...`: the whole life of a ledger from a shell."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from shell import dpselect

import accounting as acc
import dpselect as dps
from accounting.ledger import Ledger

URL = "sqlite:///privacy.db"
PURE = acc.PureDP(epsilon=0.4).to_json()
BARE = f"--curve '{PURE}' --relation add_remove"
ON = "charge --dataset clicks"
GAUSSIAN = json.dumps({"kind": "gaussian_dp", "mu": 0.05})
LOOSE = json.dumps({"kind": "approx_dp", "epsilon": 0.5, "delta": 1e-3})


def told(line: str, status: int = 0) -> str:
    """The output of a verb of `dpselect ledger` that ends with this status, in one line."""
    done = dpselect("ledger", line, "--ledger", URL)
    assert done.exit_code == status, done.output
    return " ".join(done.output.split())


def shown(name: str = "clicks") -> Any:
    """What `show --json` prints of a dataset."""
    return json.loads(told(f"show --json --dataset {name}"))["datasets"][0]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def ledger(place: Path) -> Iterator[Ledger]:
    """A ledger with a dataset "clicks" of epsilon 1, in the working folder."""
    told("init --dataset clicks --epsilon 1 --unit visitor --actor ada")
    with Ledger.open(URL) as opened:
        yield opened


def test_shell_charges_curves_mechanisms_and_events(ledger: Ledger) -> None:
    """A dataset is declared once; curves, mechanisms and events are charged, from text or a file,
    once for a key, as they fit.
    """
    assert "already declared" in told("init --dataset clicks --epsilon 9", 2)
    assert "1 dataset(s)" in told("init")
    mechanism, event = Path("mechanism.json"), Path("event.json")
    mechanism.write_text(dps.ExponentialMechanism(epsilon=0.2).to_json())
    assert "committed" in told(f"{ON} {BARE} --key a --label daily")
    assert "nothing was charged again" in told(f"{ON} {BARE} --key a")
    told(f"{ON} --mechanism @{mechanism} --count 2")
    told(f"{ON} {BARE}", 3)
    state = shown()
    assert state["unit"] == "visitor"
    assert state["periods"][0]["remaining"]["main"] == pytest.approx(0.2)
    assert [entry["key"] for entry in state["latest"]][1] == "a"
    told("init --dataset training --epsilon 8 --delta 1e-5")
    charge = "charge --dataset training"
    sgd = f"{charge} --noise-multiplier 1.1 --sampling-rate 0.01"
    assert "left: " in told(f"{sgd} --steps 1000")
    event.write_text('{"event": "Gaussian", "noise_multiplier": 20}')
    told(f"{charge} --event {event}")
    first, second = (acc.Curve.from_json(one.curve or "") for one in ledger.entries("training"))
    assert first == acc.from_dp_event(acc.dp_events.dp_sgd(1.1, 0.01, 1000), "add_remove")
    assert second.rho == pytest.approx(0.05**2 / 2)
    assert "go together" in told(sgd, 2)
    assert "stated once" in told(f"{sgd} --steps 1000 --event {event}", 2)
    event.write_text('{"event": "os.system", "command": "true"}')
    assert "must be one of Composed" in told(f"{charge} --event {event}", 2)


WRONG = [
    ("init --dataset other --epsilon 1 --time-zone Nowhere", "--time-zone='Nowhere'"),
    ("retire --to mysql://host/name", "--to"),
    (ON, "stated once"),
    (f"{ON} {BARE} --mechanism {{}}", "stated once"),
    (f"{ON} --curve {{}}", "kind"),
    (f"{ON} --curve '{PURE}'", "relation"),
    (f"""{ON} --curve '{{"kind":"os.system"}}'""", "os.system"),
    (f"{ON} --mechanism '@no such file'", "no such file"),
    (f"{ON} {BARE} --period 2024-01", "period"),
    ("affordable --dataset clicks", "stated once"),
    (f"affordable --dataset clicks --curve '{PURE}' --event x", "stated once"),
    (f"affordable --dataset other --curve '{PURE}'", "other"),
    ("quota --dataset clicks", "--name is missing"),
    (f"show --limit {10**20}", "--limit"),
    ("quota --dataset clicks --name x --withdraw --rho 1", "alone"),
]


@pytest.mark.usefixtures("ledger")
def test_a_wrong_request_is_one_line() -> None:
    """It ends with an error line that says what is wrong, a status above 0 and no entry."""
    for line, said in WRONG:
        done = dpselect("ledger", line, "--ledger", URL)
        assert done.exit_code == 2, line
        assert done.output.count("error:") == 1, line
        assert said in done.output, line
        assert "Traceback" not in done.output, line
    assert shown()["latest"] == []


def test_a_ledger_that_is_not_there_is_not_made(place: Path) -> None:
    """Only init and import make a ledger: any other verb on a mistyped path fails and leaves no
    file.
    """
    for line in ("show", "verify", "heads", f"{ON} {BARE}"):
        assert "error:" in told(line, 1)
    assert list(place.iterdir()) == []


def test_a_reservation_is_voided_from_the_shell(ledger: Ledger) -> None:
    """What Python reserves a shell gives back, but not after the commit."""
    for key in ("used", "unused"):
        ledger.reserve("clicks", acc.Curve.from_json(PURE), relation="add_remove", key=key)
    ledger.commit("clicks", "used")
    void = "void --dataset clicks --actor ada --reason cancelled --key"
    assert "void" in told(f"{void} unused")
    assert "stays charged" in told(f"{void} used", 2)
    assert shown()["periods"][0]["spent"]["main"] == 4 * 10**11


def test_show_is_for_people(ledger: Ledger) -> None:
    """In three figures; control characters are shown by their code. One line for each of the latest
    periods, and how many are left out; how many more fit is said of the last release that cost
    something.
    """
    assert "used: 0%; cost as charged: nothing; left: all of it" in told("show")
    label, some = "evil \u202e label", acc.PureDP(epsilon=0.1)
    ledger.charge("clicks", acc.PureDP(epsilon=0.25), relation="add_remove", label=label)
    ledger.reserve("clicks", some, relation="add_remove", key="back")
    ledger.void("clicks", "back", actor="ada", reason="no data")
    brief = told("show")
    for words in ("left: 7 more releases like the last one", "void, 10% given back"):
        assert words in brief
    assert "\u202e" not in brief
    months(ledger)
    assert "budget: epsilon 1, delta 1e-6 for each month used: 0%" in told(SHOW)
    for month in range(1, 15):
        curve = acc.ApproxDP(epsilon=0.001 * month, delta=2e-7)
        period = f"20{24 + (month - 1) // 12}-{(month - 1) % 12 + 1:02}"
        ledger.charge("months", curve, relation="add_remove", period=period)
    brief = told(SHOW)
    assert "2 earlier periods. See --json 2024-03: used: " in brief
    assert re.search(
        r"2025-02: used: [\d.]+% of the failure probability \(delta0\); cost as charged: epsilon"
        r" [\d.]+, delta 2e-7; left: \d+ more releases? like the last one",
        brief,
    )
    # What costs nothing, the mark of a horizon's period for example, says nothing of how many more
    # fit.
    ledger.charge("months", acc.PureDP(epsilon=0.0), relation="add_remove", period="2025-02")
    assert brief.partition("Latest")[0] == told(SHOW).partition("Latest")[0]


SHOW = "show --dataset months"


def months(ledger: Ledger) -> None:
    budget = acc.Budget(epsilon=1.0, delta=1e-6)
    ledger.create_dataset("months", budget, "add_remove", window="month")


def test_show_json_reports_the_remaining_budget_in_every_unit(ledger: Ledger) -> None:
    """The three figures, the odometer's epsilon and the Gaussian release that still fits, as the
    ledger says them.
    """
    months(ledger)
    curve = acc.Approximate(curve=acc.BoundedRange(epsilon=0.1), delta0=1e-8)
    ledger.charge("months", curve, relation="add_remove", period="2024-01")
    left, period = ledger.total("months", "2024-01"), shown("months")["periods"][0]
    assert period["figures"] == left.as_data()
    assert (period["remaining"]["epsilon"], period["remaining"]["mu"]) == (
        left.epsilon_left,
        left.mu_left,
    )


@pytest.mark.fast(1)
@pytest.mark.usefixtures("ledger")
@pytest.mark.parametrize(
    ("option", "more", "words"),
    [
        ("--order gaussian", {"order": "gaussian"}, "for Gaussian noise (μ² is added up)"),
        ("--order 12.5", {"order": 12.5}, "budget: epsilon 1, delta 1e-6"),
        (
            f"--only '{GAUSSIAN}'",
            {"release": acc.GaussianDP(mu=0.05)},
            "for releases of gaussian dp",
        ),
        (f"--mostly '{GAUSSIAN}'", None, "for Gaussian noise"),
    ],
    ids=["gaussian", "an order", "one release", "a workload"],
)
def test_init_option_sets_the_unit_of_composition(option: str, more: Any, words: str) -> None:
    """As `Budget` does, of one unit only: and every verb speaks of it."""
    asked: Any = {"epsilon": 1.0, "delta": 1e-6}
    workload = acc.Budget.for_workload(**asked, curve=acc.GaussianDP(mu=0.05))
    budget = workload if more is None else acc.Budget(**asked, **more)
    init = f"init --dataset noisy --epsilon 1 --delta 1e-6 {option}"
    other = "--mostly" if "--only" in option else "--only"
    assert "Give one of them" in told(f"{init} {other} '{GAUSSIAN}'", 2)
    told(init)
    assert acc.Budget(**shown("noisy")["budget"]) == budget
    left = f"left: {budget.how_many(acc.GaussianDP(mu=0.05)) - 1:,} more release"
    assert left in told(f"charge --dataset noisy --relation add_remove --curve '{GAUSSIAN}'")
    said = told("show --dataset noisy")
    assert words in said
    assert left in said
    assert "no problems" in told("verify")


@pytest.mark.slow
@pytest.mark.usefixtures("ledger")
def test_init_takes_a_unit_of_a_mechanism() -> None:
    """A mechanism or its file stands for its curve, an (epsilon, delta) is needed, and another
    release does not fit.
    """
    asked = "init --dataset x --epsilon 1"
    assert "gaussian" in told(f"{asked} --delta 1e-6 --order normal", 2)
    assert "--delta" in told(f"{asked} --mostly '{GAUSSIAN}'", 2)
    Path("m.json").write_text(dps.ReportNoisyMax(noise="gumbel", scale=20.0).to_json())
    told(f"{asked} --delta 1e-6 --only @m.json")
    refused = told(f"charge --dataset x --relation add_remove --curve '{LOOSE}'", 2)
    assert "declared for releases of BoundedRange" in refused


@pytest.mark.slow
def test_kept_heads_and_exports_expose_a_changed_ledger(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Heads and exports, signed or not: verify, import and the page say who signed, and what is
    wrong.
    """
    public, stranger = (
        dpselect(f"ledger keygen --output {name}").output.strip() for name in ("key", "other")
    )
    assert Path("key").stat().st_mode & 0o077 == 0
    told("heads --sign key --output heads")
    told(f"{ON} {BARE}")
    verify = "verify --heads heads"
    assert "cover 0 of them, but not the 1 later" in told(f"{verify} --trust {public}")
    assert "signature was not checked" in told(verify)
    assert "another key" in told(f"{verify} --trust {stranger}", 1)
    monkeypatch.setenv("DPSELECT_HEADS_KEY", Path("other").read_text())
    told("heads --output later")
    found = json.loads(told(f"verify --heads later --trust {stranger} --json"))
    assert (found["ok"], found["covered"]) == (True, 1)
    monkeypatch.setenv("DPSELECT_HEADS_KEY", "secret words")
    assert "secret words" not in told("heads", 2)
    told("export --sign key --output export.jsonl")
    for trust, status, said in (
        (stranger, 1, "another key"),
        (public, 0, "1 entries imported and verified; the trusted key signed them"),
        (public, 1, "exists"),
    ):
        copy = f"ledger import export.jsonl --ledger sqlite:///copy.db --trust {trust}"
        done = dpselect(copy)
        assert (done.exit_code, said in " ".join(done.output.split())) == (status, True)
    told(f"report --output page.html --heads heads --trust {public} --delta 1e-7")
    page = Path("page.html").read_text()
    assert all(words in page for words in (public, "Verified", "1e-7", 'href="#theorem-'))
    told("report --output no.html --delta 2", 2)
    assert "--no-verify" in told("report --output no.html --no-verify --heads heads", 2)
    with ledger._store.writer() as connection:
        connection.exec_driver_sql("UPDATE dpledger_totals SET main = 0")
    assert json.loads(told("verify --json", 1))["problems"][0]["kind"] == "total"
    Path("heads").write_text("{}")
    told(verify, 2)


@pytest.mark.usefixtures("ledger")
def test_affordable_command_reports_remaining_releases() -> None:
    """The count of a curve, what runs out first and what to change, in words and as data."""
    told("init --dataset log --epsilon 1 --delta 1e-6")
    curve = acc.Approximate(curve=acc.BoundedRange(epsilon=0.1), delta0=8e-8)
    release = f"affordable --dataset log --curve '{curve.to_json()}'"
    said = told(release)
    for words in ("left: 6 more releases like this", "failure probability", "as --releases does"):
        assert words in said
    assert "Session" not in said  # of commands and options alone
    found = json.loads(told(f"{release} --json"))
    assert (found["one_by_one"], found["runs_out"], found["as_one_plan"]) == (6, "failure", 12)


@pytest.mark.usefixtures("ledger")
def test_limits_from_the_shell() -> None:
    """Caps of a release and of all periods, and quotas: declared, shown, in the way of a charge,
    overridden or withdrawn.
    """
    told("init --dataset capped --epsilon 3 --most-per-release 0.3")
    capped = f"charge --dataset capped {BARE}"
    assert "--override=REASON" in told(capped, 3)
    told(f"{capped} --override census")
    assert shown("capped")["latest"][0]["override"] == "census"
    told("init --dataset weeks --epsilon 1 --window week --most-in-all 1.5")
    for week, status in ((1, 0), (2, 0), (3, 0), (4, 3)):
        told(f"charge --dataset weeks {BARE} --period 2024-W0{week}", status)
    assert "no quota is declared" in told("quota list --dataset capped")
    names = "--name teams --epsilon 1 --by team --among maps --among growth"
    told(f"quota --dataset capped {names}")
    assert "not on the list" in told(f"{capped} --team x --override y", 2)
    listed = told("quota list --dataset capped")
    assert "Quota teams for each team of maps, growth over all rows: epsilon 1" in listed
    interns, charge = "quota --dataset clicks --name interns", f"{ON} {BARE} --team interns"
    told(f"{interns} --epsilon 0.5 --by team --of interns")
    told(charge)
    assert "quota='interns'" in told(charge, 3)
    (quota,) = shown()["quotas"]
    assert (quota["name"], quota["accounts"][0]["spent"]["main"]) == ("interns", 4 * 10**11)
    said = "epsilon 0.5 interns used: 80%; cost as charged: epsilon 0.4; left: 20% of"
    assert said in told("show")
    told(f"{interns} --withdraw")
    told(charge)


@pytest.mark.usefixtures("ledger")
def test_a_batch_is_charged_as_a_whole() -> None:
    """All lines or none; a retry charges nothing; a line that is wrong is named."""
    item = {"curve": json.loads(PURE), "relation": "add_remove"}
    first, second = item | {"key": "a"}, item | {"key": "b"}

    def charged(*lines: object, status: int = 0) -> str:
        Path("batch.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
        return told(f"{ON} --batch batch.jsonl --label night", status)

    assert "does not fit" in charged(first, second, item | {"key": "c"}, status=3)
    assert shown()["periods"][0]["spent"]["main"] == 0
    for wrong in (item, second | {"color": 1}, {"key": "b"}, 3):
        assert "line 2" in charged(first, wrong, status=2)
    assert "count" in charged(first, second | {"count": 0}, status=2)
    assert "2 charges are made" in charged(first, second | {"label": "mine"})
    assert "2 of them by an earlier call" in charged(first, second)
    data = shown()
    assert data["periods"][0]["spent"]["main"] == 8 * 10**11
    assert [entry["label"] for entry in data["latest"]] == ["mine", "night"]


@pytest.mark.slow
def test_an_entry_for_the_registry(ledger: Ledger) -> None:
    """It has the registry's fields, says what the ledger knows, and marks what a person has
    to add.
    """
    yaml, name = pytest.importorskip("yaml"), 'mon"ths: #1'
    told(f"init --dataset '{name}' --epsilon 1 --delta 1e-6 --window month --unit household")
    some = acc.PureDP(epsilon=0.1)
    key = ledger.reserve(name, some, relation="add_remove", period="2024-01").key
    ledger.void(name, key, actor="ana", reason="not run")  # what is given back never ran
    told(f"charge --dataset '{name}' {BARE} --period 2024-01")
    report = f"report --registry '{name}' --output entry.yaml"
    assert "--delta" in told(f"{report} --delta 1e-6", 2)
    told(report)
    read = yaml.safe_load(Path("entry.yaml").read_text())
    known = read["deployment"]
    assert (read["status"], read["url_slug"]) == ("Draft", "mon-ths---1")
    assert known["basic"]["name"] == name
    assert known["basic"]["data_curators"][0].startswith("TO FILL IN")
    published = datetime.fromisoformat(known["basic"]["publication_date"]).date()
    assert published == datetime.now(UTC).date()
    schema = Path(__file__).parents[5] / "shared" / "registry" / "schema.yaml"
    if schema.exists():  # the registry's own schema, which is not the project's to bring
        jsonschema = pytest.importorskip("jsonschema")
        checker = jsonschema.Draft202012Validator(yaml.safe_load(schema.read_text()))
        assert [error.message for error in checker.iter_errors(read)] == []
    assert known["dp_variant"]["variant_name"] == "Approximate DP"
    loss = known["privacy_loss"]
    assert loss["privacy_unit"] == "household"
    assert loss["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-6}
    assert "for the rows of each month" in loss["privacy_parameters_details"]
    assert "1 x pure dp: ε = 0.4" in known["implementation"]["mechanisms"]
    assert "ε = 0.1" not in known["implementation"]["mechanisms"]
    assert "is not declared" in told("report --registry nobody --output x.yaml", 2)
    assert not Path("x.yaml").exists()
