"""What can go wrong with a ledger. No message carries a label, a curve of somebody else's charge,
or a password.
"""

from accounting.errors import AccountingError


class LedgerError(AccountingError):
    """Base of every error raised by the ledger."""


class LedgerUnavailable(LedgerError):
    """The store cannot be read or written now: locked, full, read-only, missing or unreachable."""


class LedgerCorrupt(LedgerError):
    """The store is not a database, or its pages are damaged."""


class SchemaMismatch(LedgerError):
    """The store holds no ledger, or one of a schema version that this package does not know."""


class UnknownDataset(LedgerError):
    """No dataset of this name is declared in the ledger."""


class DatasetExists(LedgerError):
    """A dataset of this name is already declared; declarations never change."""


class DatasetMoved(LedgerError):
    """A charge to a dataset that has moved to another ledger; nothing was written."""


class InvalidEntry(LedgerError):
    """A name, label, key, count or period that the ledger does not accept."""


class KeyConflict(LedgerError):
    """An idempotency key was used again for a different charge."""


class AlreadyCharged(LedgerError):
    """A draw was asked for under a key that has paid for an earlier draw."""


class InvalidTransition(LedgerError):
    """A charge was to be committed, released or voided in a state that does not allow it."""


class ClaimConflict(LedgerError):
    """A result was to be handed out under a charge that another result was handed out for."""


class SharedRows(LedgerError):
    """The same rows, by their fingerprint, were charged to another dataset or period before."""


class ImportRefused(LedgerError):
    """An exported ledger does not verify; nothing was imported."""
