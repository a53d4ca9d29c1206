"""What a step of a release works with: clients, clock, the state that travels, and the ways a step can end."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Callable

from .. import places
from ..aws import MISSING, Aws, code_of
from .compare import WORKERS

SHOWN = 20
"""Names of what blocks a release: the answer of a state machine that fails is held to 32,768 characters."""


SLOWER = 0.05
"""Share of the time waited so far that the next look waits: an execution of Step Functions has room for 25,000 events
of history (its quotas), a look and its wait are ten of them, and an export may take a day."""

LEAST_OFTEN_S = 300.0
"""The hold of the agents is renewed with each look."""


class Refused(Exception):  # noqa: N818 - a refusal is an answer, and no error of the program
    """The release does not go on: what is wrong, and what to change.

    Args:
        text: For people.
        blocking: What blocks it, by name.
        quiet: Whether nobody has to be told, because it was only looked whether a release is due.
    """

    def __init__(self, text: str, blocking: Iterable[Any] = (), *, quiet: bool = False) -> None:
        super().__init__(text)
        self.text = text
        self.blocking = list(blocking)[:SHOWN]
        self.quiet = quiet


class Again(Exception):  # noqa: N818 - as above
    """The step is to be worked once more, after so many seconds."""

    def __init__(self, wait: float, text: str = "") -> None:
        super().__init__(text)
        self.wait = wait
        self.text = text


class Done(Exception):  # noqa: N818 - as above
    """The release has ended, and nothing is left to do."""


@dataclass
class Context:
    """One call of one step.

    Attributes:
        aws: Clients.
        clock: The time, in seconds since 1970.
        sleep: Waits seconds.
        workload: The workload's name.
        lake: The data lake's bucket.
        state: What travels from step to step: small, plain data. Steps change it.
        workers: Requests to S3 at a time.
        deadline: When this call has to end.
    """

    aws: Aws
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    workload: str
    lake: str
    state: dict[str, Any]
    workers: int = WORKERS
    deadline: float = field(default=0.0)

    @property
    def action(self) -> str:
        """``check``, ``prove`` or ``release``."""
        return str(self.state.get("action", "check"))

    @property
    def tier(self) -> str:
        """``lustre``, ``express``, ``nvme``, ``kept`` (what is there is the user's own) or ``gone``."""
        return str(self.state.get("tier", ""))

    @property
    def hot_tier_id(self) -> str:
        """``fs-...``, or the workload's name."""
        return str(self.state.get("hot_tier_id") or self.workload)

    @property
    def leave(self) -> list[str]:
        """Paths that are left behind on purpose."""
        return [str(each) for each in self.state.get("leave") or ()]

    @property
    def proven(self) -> bool:
        """Whether a proof that still holds was given, so that only deleting is left."""
        return bool(self.state.get("proven"))

    def wait(
        self, name: str, seconds: float, limit: float, text: str, blocking: Iterable[Any] = (), *, now: str = ""
    ) -> None:
        """Ask for another look, until a limit has passed since the first of them.

        Args:
            name: What is waited for, within the step.
            seconds: Until the next look.
            limit: How long in all.
            text: The refusal when that is over.
            blocking: What blocks.
            now: What is waited for, in words, while there is time. Left out: ``text``, where it is true from the first
                look on.

        Raises:
            Again: There is time left.
            Refused: There is none.
        """
        since = self.state.setdefault("since", {})
        first = since.setdefault(name, self.clock())
        waited = self.clock() - first
        if waited >= limit:
            raise Refused(text, blocking)
        raise Again(max(seconds, min(waited * SLOWER, LEAST_OFTEN_S)), now or text)

    def read(self, key: str) -> dict[str, Any] | None:
        """Return a JSON object of the lake; None where there is none."""
        try:
            body = self.aws("s3").get_object(Bucket=self.lake, Key=key)["Body"].read()
        except Exception as error:
            if code_of(error) in MISSING:
                return None
            raise
        found = json.loads(body)
        return found if isinstance(found, dict) else None

    def write(self, key: str, content: Mapping[str, Any]) -> None:
        """Write a JSON object into the lake."""
        body = json.dumps(content, sort_keys=True).encode()
        self.aws("s3").put_object(Bucket=self.lake, Key=key, Body=body, ContentType="application/json")

    def survey(self) -> dict[str, Any]:
        """Return the survey of this release.

        Raises:
            Refused: It is not there, or another release wrote one meanwhile.
        """
        return self._own(places.survey_key(self.hot_tier_id), self.state.get("surveyed", ""), "survey")

    def index(self) -> dict[str, Any]:
        """Return the index of the manifest of this release.

        Raises:
            Refused: It is not there, or another release wrote one meanwhile.
        """
        return self._own(places.manifest_key(self.hot_tier_id), self.state.get("manifest", ""), "manifest")

    def _own(self, key: str, run: str, name: str) -> dict[str, Any]:
        found = self.read(key)
        if found is None or found.get("run") != run:
            what = "is not there" if found is None else "was replaced by another release that runs at the same time"
            raise Refused(f"the {name} s3://{self.lake}/{key} {what}; let one release run, and start it again")
        return found


def utc(moment: float) -> str:
    """Return a time as people read it."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(moment))


def human(size: float) -> str:
    """Return bytes as people read them."""
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1000
    return ""
