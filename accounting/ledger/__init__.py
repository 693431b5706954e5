"""A persistent ledger of privacy charges: who spent what on which data, within which budget."""

from accounting.ledger.errors import (
    AlreadyCharged,
    ClaimConflict,
    DatasetExists,
    ImportRefused,
    InvalidEntry,
    InvalidTransition,
    KeyConflict,
    LedgerCorrupt,
    LedgerError,
    LedgerUnavailable,
    MirrorConflict,
    SchemaMismatch,
    SharedRows,
    UnknownDataset,
)
from accounting.ledger.heads import Head, Heads, Rotation, Signature, SigningKey, Trust
from accounting.ledger.item import Chargeable, Terms
from accounting.ledger.ledger import Ledger
from accounting.ledger.mirror import Mirror
from accounting.ledger.model import Action, Dataset, Entry, Receipt, State, Total
from accounting.ledger.periods import Window
from accounting.ledger.quota import Quota, Scope
from accounting.ledger.quotas import Quotas, Standing
from accounting.ledger.rules import Problem
from accounting.ledger.sums import Share, Summary
from accounting.ledger.verification import Verification

__all__ = [
    "Action",
    "AlreadyCharged",
    "ClaimConflict",
    "Dataset",
    "DatasetExists",
    "Entry",
    "Head",
    "Heads",
    "ImportRefused",
    "InvalidEntry",
    "InvalidTransition",
    "KeyConflict",
    "Ledger",
    "LedgerCorrupt",
    "LedgerError",
    "LedgerUnavailable",
    "Chargeable",
    "Mirror",
    "MirrorConflict",
    "Problem",
    "Quota",
    "Quotas",
    "Receipt",
    "Rotation",
    "SchemaMismatch",
    "Scope",
    "Share",
    "SharedRows",
    "Signature",
    "SigningKey",
    "Standing",
    "State",
    "Summary",
    "Terms",
    "Total",
    "Trust",
    "UnknownDataset",
    "Verification",
    "Window",
]
