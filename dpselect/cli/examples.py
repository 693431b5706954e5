"""What the help of each command ends with: calls that the command itself accepts."""

import textwrap
from typing import Final

_LOG = "events.csv --user who --item shop"
_TIMES = "--time at --every day --since 2026-03-01 --until 2026-03-31"
_URL = "--ledger sqlite:///privacy.db"
_PAYS = f"{_URL} --dataset visits"

CALLS: Final = {
    "topk": (
        f"topk {_LOG} --k 10 --epsilon 1 --delta 1e-6",
        f"topk {_LOG} --k 10 --epsilon 1 --domain shops.csv --with-counts",
        f"topk {_LOG} --k 9 --epsilon 1 --delta 1e-6 {_PAYS} --key may --time at --since 2024-05-01 --until 2024-06-01 "
        "--every day --horizon may.state",
        f"topk {_LOG} --k 9 --epsilon .1 --delta 1e-7 {_PAYS} --key may --output may.json",
    ),
    "quantile": (
        "quantile events.csv --user who --quantiles .5 --low 0 --high 500 --step 1 --epsilon 1",
        "quantile events.csv --user who --value price --rule sum --quantiles .25,.5,.75 --low 0 --high 1000 --step 5 --epsilon 1",
    ),
    "plan": (
        "plan --k 10 --releases 30 --epsilon 1 --delta 1e-6 --shape zipf:1.1 --items 50000 --users 100000 --unknown-domain",
        "plan --k 10 --epsilon 1 --shape last_year.csv --column users --public",
        "plan --k 10 --epsilon 1 --delta 1e-6 --shape last_year.parquet --user who --item shop --public --write plan.toml",
    ),
    "pate": (
        "pate votes.npz --output labels.csv --mechanism confident --threshold 150 --epsilon 2 --delta 1e-6",
        "pate votes.npz --output labels.jsonl --mechanism tau --tau 3 --teachers 200 --stacked --epsilon 2 --delta 1e-6",
        f"pate votes.npz --output labels.csv --mechanism gnmax --epsilon 2 --delta 1e-6 {_URL} --dataset teachers --key may",
    ),
    "continual": (
        f"continual start {_PAYS} --key march --state march.state --k 10 --periods 31 --epsilon 1 --delta 1e-6",
        f"continual close 1 monday.csv {_PAYS} --key march --state march.state --user who --item shop",
        f"continual show {_PAYS} --key march --state march.state",
    ),
    "ledger": (
        f"ledger init {_PAYS} --epsilon 1 --delta 1e-6",
        f"ledger show {_URL}",
        f"ledger report {_URL} --output report.html",
    ),
    "ledger init": (
        f"ledger init {_PAYS} --epsilon 1 --delta 1e-6",
        f"ledger init {_PAYS} --epsilon 1 --delta 1e-6 --window month --unit patient",
        "ledger init --config release.toml",
    ),
    "ledger charge": (
        f"ledger charge {_PAYS} --mechanism @mechanism.json --key may",
        f"ledger charge {_PAYS} --relation add_remove --curve @curve.json --count 12",
        f"ledger charge {_PAYS} --batch charges.jsonl",
    ),
    "ledger quota": (
        f"ledger quota {_PAYS} --name teams --by team --epsilon .25 --delta 1e-7",
        f"ledger quota {_PAYS} --name 30days --window day --rolling 30 --epsilon .5 --delta 1e-7",
        f"ledger quota {_PAYS} --name teams --withdraw",
    ),
    "ledger commit": (f"ledger commit {_PAYS} --key may",),
    "ledger release": (f"ledger release {_PAYS} --key may",),
    "ledger void": (f"ledger void {_PAYS} --key may --actor ada --reason never-started",),
    "ledger show": (
        f"ledger show {_URL}",
        f"ledger show {_PAYS} --details --limit 50",
        f"ledger show {_URL} --json",
    ),
    "ledger affordable": (
        f"ledger affordable {_PAYS} --k 10 --epsilon .1 --delta 1e-7",
        f"ledger affordable {_PAYS} --k 10 --releases 30 --domain shops.csv",
        "ledger affordable --config release.toml",
    ),
    "ledger keygen": (
        "ledger keygen --output key.pem",
        "ledger keygen --output new.pem --after key.pem --rotation rotation.json",
    ),
    "ledger verify": (
        f"ledger verify {_URL}",
        f"ledger verify {_URL} --heads heads.json",
        f"ledger verify {_URL} --mirror heads.log --trust KEY",
    ),
    "ledger heads": (
        f"ledger heads {_URL} --output heads.json",
        f"ledger heads {_URL} --sign key.pem --mirror heads.log",
    ),
    "ledger export": (f"ledger export {_URL} --output ledger.jsonl --sign key.pem",),
    "ledger import": ("ledger import ledger.jsonl --ledger sqlite:///copy.db --trust KEY",),
    "ledger report": (
        f"ledger report {_URL} --output report.html",
        f"ledger report {_URL} --output report.html --heads heads.json",
        f"ledger report {_URL} --output entry.yaml --registry visits",
    ),
    "verify": (
        f"verify replay {_LOG} --max-items-per-user 3",
        "verify replay events.csv --config release.toml --json",
        f"verify horizon {_LOG} {_TIMES}",
    ),
    "verify replay": (
        f"verify replay {_LOG} --max-items-per-user 3",
        f"verify replay {_LOG} --clip 2 --n-users 500",
        "verify replay events.csv --config release.toml --json",
    ),
    "verify horizon": (
        f"verify horizon {_LOG} {_TIMES}",
        f"verify horizon {_LOG} {_TIMES} --count running --cells 10",
        f"verify horizon {_LOG} {_TIMES} --n-users 100 --json",
    ),
}
"""By the command's name below `dpselect`."""


def examples(command: str) -> list[str]:
    """Lines that a shell takes, 76 characters at most; none for a command that needs no example."""
    calls = (
        textwrap.wrap(f"dpselect {call}", 72, break_long_words=False, break_on_hyphens=False) for call in CALLS.get(command, ())
    )
    return [line for lines in calls for line in " \\\n    ".join(lines).splitlines()]
