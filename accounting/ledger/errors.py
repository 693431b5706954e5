"""Errors of the ledger. No message has a label, a curve of another charge, or a password."""

from accounting.errors import AccountingError, InvalidArgument


class LedgerError(AccountingError):
    """Base class of every error raised by the ledger."""


class LedgerUnavailable(LedgerError):
    """Error raised if the store is locked, full, read-only, missing or unreachable."""


class LedgerCorrupt(LedgerError):
    """Error raised if the store is not a database, or its content is damaged."""


class SchemaMismatch(LedgerError):
    """Error raised if the store holds no ledger, or one of an unknown schema version."""


class UnknownDataset(LedgerError, InvalidArgument):
    """Error raised if the ledger declares no dataset of this name."""


class DatasetExists(LedgerError, InvalidArgument):
    """Error raised if a dataset of this name is already declared; declarations never change."""


class DatasetMoved(LedgerError):
    """A charge to a dataset that has moved to another ledger; nothing was written."""


class InvalidEntry(LedgerError, InvalidArgument):
    """Error raised for an address, name, key, count or period that the ledger does not accept."""


class KeyConflict(LedgerError, InvalidArgument):
    """Error raised if an idempotency key is used again for a different charge."""


class AlreadyCharged(LedgerError):
    """Error raised if a draw is requested under a key that has paid for an earlier draw."""


class InvalidTransition(LedgerError, InvalidArgument):
    """Error raised if a charge's state does not allow a commit, release or void."""


class ClaimConflict(LedgerError):
    """Error raised if a result would be handed out under a charge that has paid for another one."""


class SharedRows(LedgerError, InvalidArgument):
    """Error raised if rows with this fingerprint were charged to another dataset or period."""


class ImportRefused(LedgerError):
    """Error raised if an exported ledger does not verify; nothing was imported."""
