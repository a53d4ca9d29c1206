"""Whether removing a file here removes it in S3 too: links can export removals, and nothing promoted may go that way.

FSx is asked, not the settings: events of a link can be changed at any time, and links of a file system that was there
before are not in the settings at all.
"""

from __future__ import annotations

from typing import Any

from ..aws import Aws
from ..settings import Settings


class ExportedRemovals:
    """Directories whose removals FSx exports, asked for once.

    Args:
        aws: Clients.
        settings: Settings of the agent.
    """

    def __init__(self, aws: Aws, settings: Settings) -> None:
        self._aws = aws
        self._settings = settings
        self._found: list[str] | None = None

    def link_of(self, path: str) -> str:
        """Return the directory of the link that exports removals of a checkpoint, or of a part of it; empty for none.

        Args:
            path: Its folder below the checkpoint root.

        Raises:
            ClientError: FSx refused or failed: whoever does not know removes nothing.
        """
        settings = self._settings
        if settings.tier != "lustre":
            return ""
        if self._found is None:
            self._found = self._ask()
        inner = _plain(f"{settings.checkpoints[len(settings.mount.rstrip('/')) :]}/{path}")
        return next((each for each in self._found if _holds(_plain(each), inner) or _holds(inner, _plain(each))), "")

    def _ask(self) -> list[str]:
        found: list[str] = []
        request: dict[str, Any] = {"Filters": [{"Name": "file-system-id", "Values": [self._settings.hot_tier_id]}]}
        while True:
            page = self._aws("fsx").describe_data_repository_associations(**request)
            for each in page["Associations"]:
                events = ((each.get("S3") or {}).get("AutoExportPolicy") or {}).get("Events") or ()
                if "DELETED" in events:
                    found.append(each.get("FileSystemPath") or "/")
            if not page.get("NextToken"):
                return found
            request["NextToken"] = page["NextToken"]


def _plain(path: str) -> str:
    return "/".join(part for part in path.split("/") if part)


def _holds(outer: str, inner: str) -> bool:
    return not outer or inner == outer or inner.startswith(outer + "/")
