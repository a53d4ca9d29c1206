"""The account that a caller without an account of its own belongs to."""

from __future__ import annotations

import re
import uuid

from training_storage.emulator._moto import Patches
from training_storage.emulator.process import DEFAULT_ACCOUNT

_current = DEFAULT_ACCOUNT
_ACCESS_KEY = re.compile(r"ASIA(\d{12})[0-9A-F]{4}")


def use(account: str) -> None:
    """Let callers with the emulator's credentials be this account."""
    global _current
    _current = account


def current() -> str:
    """Return the account that callers with the emulator's credentials are."""
    return _current


def access_key(account: str) -> str:
    """Return an access key that says by itself whose it is; it looks like one of temporary credentials."""
    return f"ASIA{account}{uuid.uuid4().hex[:4].upper()}"


def _named(key: str) -> str | None:
    match = _ACCESS_KEY.fullmatch(key)
    return match.group(1) if match else None


def install(patches: Patches) -> None:
    """Replace moto's fixed default account; keys that IAM or STS gave out, or that name an account, keep theirs."""
    from moto.iam import models

    original = models.get_account_id_from

    def get_account_id_from(access_key: str) -> str:
        found = original(access_key)
        if found != DEFAULT_ACCOUNT:
            return found
        return _named(access_key) or _current

    patches.set(models, "get_account_id_from", get_account_id_from)
