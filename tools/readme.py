"""Bring the console blocks of the README and of pages up to date.

Those of the README run in a folder with the README's own files, those of pages in the repository, with its examples.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = (ROOT / "docs" / "what-if.md",)
REST = "…"


def main() -> None:
    """Rewrite the blocks; a block that ends in an ellipsis keeps the length at which it was cut."""
    text = README.read_text(encoding="utf-8")
    with TemporaryDirectory() as folder:
        files = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        for name, body in zip(("first.yaml", "broken.yaml"), files, strict=True):
            (Path(folder) / name).write_text(body, encoding="utf-8")
        README.write_text(renewed(text, Path(folder)), encoding="utf-8")
    for page in PAGES:
        page.write_text(renewed(page.read_text(encoding="utf-8"), ROOT), encoding="utf-8")


def renewed(text: str, folder: Path) -> str:
    """Return a page with its console blocks as they are printed in a folder."""

    def renew(match: re.Match[str]) -> str:
        command, *old = match[1].splitlines()
        done = subprocess.run(  # noqa: S603 - the commands of our own pages
            [sys.executable, "-m", "training_storage", *shlex.split(command)[2:]],
            cwd=folder, capture_output=True, text=True, check=False, env=os.environ | {"COLUMNS": "100"},
        )  # fmt: skip
        new = (done.stdout + done.stderr).rstrip().splitlines()
        if old[-1:] == [REST]:
            new = [*new[: new.index("Rejected, and why") - 1], REST]
        return "\n".join(["```console", command, *new, "```"])

    return re.sub(r"^```console\n(.*?)^```", renew, text, flags=re.MULTILINE | re.DOTALL)


if __name__ == "__main__":
    main()
