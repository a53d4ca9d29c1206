"""How a command on a node says no."""

from __future__ import annotations


class Refusal(Exception):  # noqa: N818 - a refusal is an answer, and no error of the program
    """The command is not done, and nothing was changed by it: what is wrong, and what to change, in one text."""


class Failure(Exception):  # noqa: N818 - as above
    """The command is done in part: what went wrong with the rest, in one text.

    Attributes:
        answer: What was done, as plain data.
    """

    def __init__(self, message: str, answer: object = None) -> None:
        super().__init__(message)
        self.answer = answer


class Ended(BaseException):
    """SIGTERM: the command stops where it is. No ``except Exception`` takes it for a failure of its own."""
