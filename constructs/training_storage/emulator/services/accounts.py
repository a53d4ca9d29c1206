"""The account that a caller without an account of its own belongs to."""

from __future__ import annotations

from training_storage.emulator._moto import Patches
from training_storage.emulator.process import DEFAULT_ACCOUNT
from training_storage.emulator.services import directory_bucket_sessions

_current = DEFAULT_ACCOUNT


def use(account: str) -> None:
    """Let callers with the emulator's credentials be this account."""
    global _current
    _current = account


def current() -> str:
    """Return the account that callers with the emulator's credentials are."""
    return _current


def install(patches: Patches) -> None:
    """Replace moto's fixed default account; keys that IAM, STS or a directory bucket gave out keep theirs."""
    from moto.iam import models

    original = models.get_account_id_from

    def get_account_id_from(access_key: str) -> str:
        found = original(access_key)
        if found != DEFAULT_ACCOUNT:
            return found
        return directory_bucket_sessions.account_of(access_key) or _current

    patches.set(models, "get_account_id_from", get_account_id_from)
