"""How a command on a node says no."""

from __future__ import annotations


class Refusal(Exception):  # noqa: N818 - a refusal is an answer, and no error of the program
    """The command is not done, and nothing was changed by it: what is wrong, and what to change, in one text."""


class Ended(BaseException):
    """SIGTERM: the command stops where it is. No ``except Exception`` takes it for a failure of its own."""
