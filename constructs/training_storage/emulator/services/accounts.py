"""The account that a caller without an account of its own belongs to."""

from __future__ import annotations

from training_storage.emulator._moto import Patches
from training_storage.emulator.process import DEFAULT_ACCOUNT

_current = DEFAULT_ACCOUNT


def use(account: str) -> None:
    """Let callers with the emulator's credentials be this account."""
    global _current
    _current = account


def current() -> str:
    """Return the account that callers with the emulator's credentials are."""
    return _current


def install(patches: Patches) -> None:
    """Replace moto's fixed default account; keys that IAM or STS gave out keep theirs."""
    from moto.iam import models

    original = models.get_account_id_from

    def get_account_id_from(access_key: str) -> str:
        found = original(access_key)
        return _current if found == DEFAULT_ACCOUNT else found

    patches.set(models, "get_account_id_from", get_account_id_from)
