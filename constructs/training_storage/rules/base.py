"""What a rule is.

A rule is one small object that says what a service allows, why, and where that is written, and carries its own pair of
examples. The planner keeps to the rules so that a plan is always legal; constructs run the same objects on explicit
arguments. No linter catches FSx or S3 Express mistakes, so these are the only net.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from training_storage.errors import Problem, ValidationError

S = TypeVar("S")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Generic[S]):
    """One thing that a service allows or forbids.

    Attributes:
        id: Stable id such as ``lustre.capacity-step``: room, full stop, what it is about. Public contract.
        statement: The rule in one sentence, said as what is right.
        reason: Why it is so, or what happens in AWS when it is broken.
        source: Where it is written: a facts row, an AWS page, a field report by number.
        check: Takes a subject and yields a problem for each way in which the subject breaks the rule. It must pass
            over fields that are None or not known (constructs hand tokens in as None, see ``_tokens``).
        passes: A subject that keeps the rule.
        fails: A subject that breaks it.
    """

    id: str
    statement: str
    reason: str
    source: str
    check: Callable[[S], Iterable[Problem]] = field(repr=False)
    passes: S = field(repr=False)
    fails: S = field(repr=False)


def rule(
    *, id: str, statement: str, reason: str, source: str, passes: S, fails: S
) -> Callable[[Callable[[S], Iterable[Problem]]], Rule[S]]:
    """Make the decorated check a ``Rule``, so that what a rule says stands over what it does."""

    def make(check: Callable[[S], Iterable[Problem]]) -> Rule[S]:
        return Rule(id=id, statement=statement, reason=reason, source=source, check=check, passes=passes, fails=fails)

    return make


def find_problems(rules: Iterable[Rule[S]], subject: S) -> tuple[Problem, ...]:
    """Run rules on a subject and return every problem, each with the id of its rule."""
    return tuple(replace(problem, rule=rule.id) for rule in rules for problem in rule.check(subject))


_INDEX = re.compile(r"\[\d+\]")


def relabel(problems: Iterable[Problem], names: Mapping[str, str]) -> tuple[Problem, ...]:
    """Return problems with their field paths said in another vocabulary, such as the fields of a workload file.

    Args:
        problems: What rules found.
        names: New path by old path; ``[]`` stands for any index, which is carried over where the new path has ``[]``
            too. A path without an entry stays as it is. Where two fields get one name, what is said about both is
            said once.
    """
    out: dict[tuple[str, str], Problem] = {}
    for problem in problems:
        new = names.get(_INDEX.sub("[]", problem.path), problem.path)
        if new != problem.path:
            for index in _INDEX.findall(problem.path):
                new = new.replace("[]", index, 1)
        out.setdefault((new, problem.what), replace(problem, path=new))
    return tuple(out.values())


def require(rules: Iterable[Rule[S]], subject: S, *, where: str = "") -> None:
    """Raise ``ValidationError`` with every problem that the rules find on the subject; return None when there is none.

    Args:
        rules: The rules to run.
        subject: What they look at.
        where: Construct path for the message.
    """
    problems = find_problems(rules, subject)
    if problems:
        raise ValidationError(problems, where=where)
