"""What has to be kept is kept, also where the world is not as the agent was told."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.life.actions import World


@pytest.mark.parametrize("path", ["/checkpoints", "/", "/checkpoints/run1/step-2"])
def test_nothing_promoted_is_removed_under_a_link_that_exports_removals(tmp_path: Path, path: str) -> None:
    """FSx would delete the objects too, after they had been verified."""
    world = World(tmp_path, exports=True)
    for step in range(1, 6):
        world.save(f"run1/step-{step}")
    world.run(prune=False)
    world.aws.fsx.links[0]["FileSystemPath"] = path
    world.aws.fsx.links[0]["S3"]["AutoExportPolicy"]["Events"] = ["NEW", "CHANGED", "DELETED"]
    result = world.run()
    assert "run1/step-2" in world.hot_paths()
    assert "exports removals" in result.kept["run1/step-2"]
    assert "run1/step-1" not in world.hot_paths()  # nobody needs it, here or there


def test_links_that_export_no_removals_are_no_reason_to_keep(tmp_path: Path) -> None:
    world = World(tmp_path, exports=True)
    for step in range(1, 6):
        world.save(f"run1/step-{step}")
    assert world.run().kept == {}
    assert world.hot_paths() == {"run1/step-4", "run1/step-5"}


@pytest.mark.parametrize("tier", ["lustre", "express", "nvme"])
def test_what_a_killed_job_left_goes_when_its_time_is_over(tmp_path: Path, tier: str) -> None:
    world = World(tmp_path, tier)
    world.save("run1/step-1", complete=False)
    world.save("run1/step-2")
    assert world.run().pruned == []
    world.aws.sleep(2 * 86_400)
    result = world.run()
    assert (result.kept, result.errors) == ({}, [])
    assert [each["path"] for each in result.pruned] == ["run1/step-1"]
    assert world.hot_paths() == {"run1/step-2"}


def test_what_is_being_copied_in_is_no_half_written_one_that_was_left(tmp_path: Path) -> None:
    """Tools that keep times make files that look days old; the folder they write into does not."""
    world = World(tmp_path)
    world.save("run1/step-1", complete=False)
    world.aws.sleep(3 * 86_400)
    for step in (2, 3, 4):
        world.save(f"run1/step-{step}")
    left = world.checkpoints / "run1/step-1"
    times = {each: each.stat().st_mtime_ns for each in left.iterdir()}
    world.aws.write(left / "sub/.copying", b"")
    (left / "sub/.copying").unlink()
    os.utime(left / "sub", (world.aws.now, world.aws.now))
    assert times == {each: each.stat().st_mtime_ns for each in left.iterdir() if each.is_file()}
    result = world.run()
    assert "on its way in" in result.kept["run1/step-1"]
    assert left.is_dir()
    world.aws.sleep(2 * 86_400)
    assert [each["path"] for each in world.run().pruned] == ["run1/step-1"]


def test_a_folder_that_cannot_be_moved_is_kept_in_words_and_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    for step in range(1, 6):
        world.save(f"run1/step-{step}")
    real = Path.rename

    def rename(self: Path, target: Path) -> Path:
        if self.name == "step-1":
            raise OSError(errno.EXDEV, "Invalid cross-device link", str(self))
        return real(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    result = world.run()
    assert "quota project" in result.kept["run1/step-1"]
    assert world.hot_paths() == {"run1/step-1", "run1/step-4", "run1/step-5"}
    assert world.run().kept.keys() == {"run1/step-1"}
