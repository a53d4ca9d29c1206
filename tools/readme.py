"""Bring the console blocks of the README up to date: run each command in a folder with the README's own files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

README = Path(__file__).resolve().parents[1] / "README.md"
REST = "…"


def main() -> None:
    """Rewrite the blocks; a block that ends in an ellipsis keeps the length at which it was cut."""
    text = README.read_text(encoding="utf-8")
    with TemporaryDirectory() as folder:
        files = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        for name, body in zip(("first.yaml", "broken.yaml"), files, strict=True):
            (Path(folder) / name).write_text(body, encoding="utf-8")

        def renew(match: re.Match[str]) -> str:
            command, *old = match[1].splitlines()
            done = subprocess.run(  # noqa: S603 - the commands of our own README
                [sys.executable, "-m", "training_storage", *command.split()[2:]],
                cwd=folder, capture_output=True, text=True, check=False, env=os.environ | {"COLUMNS": "100"},
            )  # fmt: skip
            new = (done.stdout + done.stderr).rstrip().splitlines()
            if old[-1:] == [REST]:
                new = [*new[: new.index("Rejected, and why") - 1], REST]
            return "\n".join(["```console", command, *new, "```"])

        text = re.sub(r"^```console\n(.*?)^```", renew, text, flags=re.MULTILINE | re.DOTALL)
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
