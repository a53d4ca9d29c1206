"""A result goes to its file whole or not at all, and takes the place of nothing that somebody protects."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from training_storage.cli.output import write_whole


def test_a_file_whose_name_is_as_long_as_any_is_written(tmp_path: Path) -> None:
    file = tmp_path / ("a" * 255)
    write_whole(file, "one")
    assert file.read_text(encoding="utf-8") == "one"
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_that_may_not_be_written_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("kept", encoding="utf-8")
    monkeypatch.setattr(os, "access", lambda name, mode: not (Path(name) == file and mode == os.W_OK))
    with pytest.raises(PermissionError, match="Permission denied"):
        write_whole(file, "new")
    assert file.read_text(encoding="utf-8") == "kept"


def test_a_link_to_itself_is_not_replaced(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(OSError, match="symbolic links"):
        write_whole(loop, "new")
    assert loop.is_symlink()


def test_a_new_file_has_the_mode_of_any_other_and_an_old_one_keeps_its(tmp_path: Path) -> None:
    plain, file = tmp_path / "plain", tmp_path / "file"
    plain.write_text("", encoding="utf-8")
    write_whole(file, "one")
    assert stat.S_IMODE(file.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    file.chmod(0o640)
    write_whole(file, "two")
    assert (file.read_text(encoding="utf-8"), stat.S_IMODE(file.stat().st_mode)) == ("two", 0o640)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("one", encoding="utf-8")
    link.symlink_to(file)
    write_whole(link, "two")
    assert link.is_symlink()
    assert file.read_text(encoding="utf-8") == "two"


def test_what_is_no_file_is_written_as_it_is() -> None:
    write_whole(Path(os.devnull), "gone")
    assert not Path(os.devnull).is_file()


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_writing_that_fails_leaves_nothing_behind(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("kept", encoding="utf-8")

    def failing(_: int) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(type(error)):
        write_whole(file, "new")
    assert [(each.name, each.read_text(encoding="utf-8")) for each in tmp_path.iterdir()] == [("file", "kept")]
