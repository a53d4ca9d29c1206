"""The house stays the house: source root, wheel contents, lazy imports, no stray addresses."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def tracked_files() -> list[Path]:
    """Files of the repository; the folder's own files where there is no git."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, check=True, capture_output=True, text=True,
        ).stdout.split("\0")  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        parts = {".venv", ".git", ".make", "cdk.out", "__pycache__", ".mypy_cache", ".ruff_cache"}
        return [p for p in ROOT.rglob("*") if p.is_file() and not parts & set(p.relative_to(ROOT).parts)]
    return [ROOT / name for name in listed if name and (ROOT / name).is_file()]


def text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def test_source_root_is_not_a_package() -> None:
    assert not (ROOT / "constructs" / "__init__.py").exists()
    assert list((ROOT / "constructs").glob("*.py")) == []


def test_constructs_is_the_one_of_the_package_index() -> None:
    import constructs

    assert ROOT not in Path(str(constructs.__file__)).parents or ".venv" in Path(str(constructs.__file__)).parts


@pytest.mark.parametrize("module", ["training_storage", "training_storage.planner", "training_storage.cli"])
def test_planning_side_never_starts_jsii(module: str) -> None:
    code = f"import sys, {module}; print(*[m for m in ('jsii', 'aws_cdk', 'boto3', 'moto') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == ""


def test_operations_never_start_jsii() -> None:
    code = "import sys, training_storage.operations.preload; print('jsii' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"


@pytest.mark.slow
def test_wheel_holds_one_package_with_its_data(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"training_storage"}
    assert "training_storage/py.typed" in names
    assert any(name.startswith("training_storage/catalog/data/") for name in names)
    assert any(name.startswith("training_storage/node/bootstrap/") for name in names)
    assert {"training_storage/report/page.html.j2", "training_storage/report/page.css"} <= set(names)


def test_constraints_hold_exact_versions_and_no_index_lines() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) > 50
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9_.+!-]+", line)] == []


def test_constraints_hold_the_typeguard_that_jsii_asks_for() -> None:
    # Field report 38: a later typeguard breaks synth of good constructs.
    assert "typeguard==2.13.3" in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()


def test_no_registry_address_and_no_machine_path_is_committed() -> None:
    pattern = re.compile(
        # Written so that it does not match itself.
        r"(extra-)?index[-]url\s*[= ]|https?:[/]/[^ \"']*/simple(/|\"|$)|source = [{] registry"
        r"|(^|[\s\"'(=])/(work|home|root)/[a-z]"
    )
    own = Path(__file__).resolve()
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked_files()
        if path != own
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


def test_modules_stay_small() -> None:
    sources = [*(ROOT / "constructs").rglob("*.py"), *(ROOT / "stacks").rglob("*.py")]
    # "A module that passes about 400 lines wants to become two."
    long = {str(p.relative_to(ROOT)): n for p in sources if (n := len(text_of(p).splitlines())) > 440}
    assert long == {}
