"""Every file is sorted: what must be kept, what may go; and what is exported is exactly what is kept."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.life.release_world import LAKE, NAME, World, node_root, world
from training_storage.node import hsm, places
from training_storage.node.errors import Refusal
from training_storage.node.release import tally as tallies
from training_storage.node.release.manifest import manifest
from training_storage.node.release.sorting import BLOCKING, Found, Sorter, States, hsm_states
from training_storage.node.release.survey import check_place, survey
from training_storage.node.release.tally import Places, Tally, blocking


def _kinds(made: World, *, leave: tuple[str, ...] = (), states: States | None = None) -> dict[str, str]:
    with node_root(made.root):
        sorter = Sorter(made.aws, made.settings, leave=leave, clock=made.aws.clock, states=states)
        return {each.path: each.kind for each in sorter.files()}


def _written(made: World, key: str) -> dict[str, Any]:
    return dict(json.loads(made.aws.s3.content(LAKE)[key]))


def test_every_file_is_in_its_class() -> None:
    with world() as made:
        made.fill()
        made.write("datasets/new.tar")
        made.write("results/a.csv")
        found = _kinds(made)
    assert found["/fsx/datasets/shard-0.tar"] == "datasets"
    assert found["/fsx/datasets/new.tar"] == "changed-data"
    assert found["/fsx/results/a.csv"] == "unlinked"
    assert found["/fsx/scratch/tmp.bin"] == "scratch"
    assert found["/fsx/checkpoints/run1/config.json"] == "keep"
    assert found["/fsx/checkpoints/run1/step-3/rank0.pt"] == "keep"
    assert found["/fsx/checkpoints/run1/step-5/COMPLETE"] == "keep"
    assert found["/fsx/checkpoints/run1/step-4/rank0.pt"] == "unpromoted"
    assert found["/fsx/checkpoints/run1/step-9/rank0.pt"] == "half-written"
    assert not any(".training-storage" in each for each in found)


def test_checkpoints_of_a_job_that_writes_no_markers_are_kept() -> None:
    """Nothing tells a finished one from a half-written one: whoever saves like that would lose all of them."""
    with world() as made:
        for step in (1, 2, 3):
            made.checkpoint(step, series="plain")
            (made.root / f"fsx/checkpoints/plain/step-{step}/COMPLETE").unlink()
            made.checkpoint(step, series="marked")
        (made.root / "fsx/checkpoints/marked/step-1/COMPLETE").unlink()  # from before markers were written
        made.checkpoint(4, series="marked", complete=False)
        made.aws.sleep(1000)
        found = _kinds(made)
    assert {found[f"/fsx/checkpoints/plain/step-{step}/rank0.pt"] for step in (1, 2, 3)} == {"keep"}
    assert found["/fsx/checkpoints/marked/step-1/rank0.pt"] == "keep"
    assert found["/fsx/checkpoints/marked/step-4/rank0.pt"] == "half-written"


def test_a_data_set_that_is_not_in_s3_as_it_is_here_is_changed_data() -> None:
    with world() as made:
        for name in ("same", "longer", "later", "lost"):
            made.dataset(name, b"data")
        made.write("datasets/longer", b"data and more", age=0)
        made.write("datasets/later", b"DATA", age=-60)
        made.aws.s3.delete_object(Bucket=LAKE, Key="datasets/lost")
        found = _kinds(made)
    assert found == {
        "/fsx/datasets/same": "datasets",
        "/fsx/datasets/longer": "changed-data",
        "/fsx/datasets/later": "changed-data",
        "/fsx/datasets/lost": "changed-data",
    }


@pytest.mark.parametrize(
    ("flags", "kind"),
    [
        (0x09, "datasets"),
        (0x0D, "datasets"),  # released: its data lies in S3 alone
        (0x0B, "changed-data"),  # dirty
        (0x49, "changed-data"),  # lost
        (0x01, "changed-data"),  # never archived
        (None, "changed-data"),  # Lustre does not know it
    ],
)
def test_lustre_says_whether_a_file_changed_since_it_was_imported(flags: int | None, kind: str) -> None:
    with world() as made:
        made.dataset("a")
        found = _kinds(made, states=lambda paths: {} if flags is None else dict.fromkeys(paths, flags))
    assert found == {"/fsx/datasets/a": kind}


def test_a_file_that_vanished_hides_no_other_one() -> None:
    there = {"/a": "(0x00000009) exists archived", "/c": "(0x0000000b) exists dirty archived", "/d": "(0x00000000)"}

    def ask(paths: Sequence[str]) -> hsm.Told:
        told: dict[str, str] = {}
        for each in paths:
            if each not in there:
                return hsm.Told(told, 2, f"can't get hsm state for {each}: No such file or directory")
            told[each] = there[each]
        return hsm.Told(told, 0, "")

    assert hsm_states(["/a", "/b", "/c", "/gone", "/d"], ask) == {"/a": 0x09, "/c": 0x0B, "/d": 0}
    with pytest.raises(OSError, match="Connection timed out"):
        hsm_states(["/a"], lambda _paths: hsm.Told({}, 110, "Connection timed out"))


def test_files_meet_their_objects_in_the_order_of_s3_whatever_their_names() -> None:
    names = ["a/b", "a.txt", "a0", "a-b/c", "A", "a/.hidden", "b/ü.bin", "b/z", "b!", "b/c/d/e", "b/c.d", "b/c-d"]
    with world() as made:
        for name in names:
            made.dataset(name, name.encode())
        found = _kinds(made)
    assert found == {f"/fsx/datasets/{name}": "datasets" for name in names}


def test_leaving_a_path_leaves_what_lies_below_it_and_nothing_beside_it() -> None:
    with world() as made:
        for path in ("results/a", "results/b/c", "results-2/a"):
            made.write(path)
        found = _kinds(made, leave=("/fsx/results/",))
    assert found == {"/fsx/results/a": "left", "/fsx/results/b/c": "left", "/fsx/results-2/a": "unlinked"}


def test_what_a_link_exports_by_itself_is_kept_and_no_task_takes_it() -> None:
    with world(exports=True) as made:
        made.fill()
        with node_root(made.root):
            survey(made.aws, made.settings, run="r", clock=made.aws.clock)
        whole = _written(made, places.survey_key(made.id))
    assert whole["paths"] == []
    assert whole["ways"] == {"task": 0, "auto": 18, "upload": 0}
    assert "unpromoted" not in whole["classes"]


def test_names_that_s3_cannot_hold_block() -> None:
    with world() as made:
        made.write("checkpoints/run1/" + "/".join(["d" * 200] * 6))
        bad = os.fsencode(made.mount) + b"/checkpoints/\xff.bin"
        Path(os.fsdecode(bad)).write_bytes(b"x")
        with node_root(made.root):
            survey(made.aws, made.settings, run="r", clock=made.aws.clock)
        whole = _written(made, places.survey_key(made.id))
    assert whole["classes"]["nameless"]["files"] == 2
    assert blocking(whole["classes"])


def test_symbolic_links_are_named_and_never_followed() -> None:
    with world() as made:
        made.checkpoint(1)
        made.write("outside.bin")
        (made.mount / "checkpoints" / "latest").symlink_to("run1/step-1")
        (made.mount / "checkpoints" / "loop").symlink_to("..")
        os.mkfifo(made.mount / "checkpoints" / "pipe")
        with node_root(made.root):
            survey(made.aws, made.settings, run="r", clock=made.aws.clock)
        whole = _written(made, places.survey_key(made.id))
    assert whole["pointers"] == ["/fsx/checkpoints/latest", "/fsx/checkpoints/loop"]
    assert whole["special"] == 1
    assert whole["files"] == 4


def test_the_survey_says_how_much_lies_where() -> None:
    with world() as made:
        for number in range(20):
            made.write(f"results/big/{number:02d}.bin", b"0" * 500)
        made.write("results/small/c.bin", b"0")
        with node_root(made.root):
            told = survey(made.aws, made.settings, run="r", clock=made.aws.clock)
        whole = _written(made, places.survey_key(made.id))
    assert told["classes"] == {"unlinked": {"files": 21, "bytes": 10_001}}
    assert blocking(whole["classes"]) == [
        {"class": "unlinked", "path": "/fsx/results/big", "files": 20, "bytes": 10_000},
        {"class": "unlinked", "path": "/fsx/results/small", "files": 1, "bytes": 1},
    ]


def test_few_files_that_block_are_named_one_by_one() -> None:
    with world() as made:
        made.write("results/big/a.bin", b"0" * 500)
        made.write("results/big/b.bin", b"0" * 400)
        with node_root(made.root):
            survey(made.aws, made.settings, run="r", clock=made.aws.clock)
        whole = _written(made, places.survey_key(made.id))
    assert blocking(whole["classes"]) == [
        {"class": "unlinked", "path": "/fsx/results/big/a.bin", "files": 1, "bytes": 500},
        {"class": "unlinked", "path": "/fsx/results/big/b.bin", "files": 1, "bytes": 400},
    ]


@pytest.mark.parametrize("seed", range(40))
def test_paths_of_an_export_hold_exactly_what_is_kept(seed: int) -> None:
    chance = random.Random(seed)
    files: dict[str, bool] = {}
    for _ in range(60):
        deep = chance.randrange(1, 5)
        path = "/".join(chance.choice("abc") for _ in range(deep)) + f"/{chance.randrange(9)}.bin"
        files[path] = chance.random() < chance.choice((0.5, 0.97))
    ordered = sorted(files, key=lambda each: each.encode())
    paths = Places("/fsx")
    for each in ordered:
        paths.add(Found(f"/fsx/{each}", 1, 0, "keep" if files[each] else "scratch", way="task" if files[each] else ""))
    named = paths.close()
    taken = {each for each in files if any(each == path or each.startswith(path + "/") for path in named)}
    assert taken == {each for each, kept in files.items() if kept}
    assert len(named) == len(set(named))
    assert not paths.too_many
    # None of them could be said shorter.
    for each in named:
        folder = each.rpartition("/")[0]
        assert not folder or not all(kept for path, kept in files.items() if path.startswith(folder + "/"))


def test_more_places_than_tasks_can_name_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallies, "MOST_PLACES", 10)
    paths = Places("/fsx")
    for number in range(30):
        paths.add(Found(f"/fsx/a/{number:03d}", 1, 0, "keep", way="task"))
    paths.add(Found("/fsx/a/zzz", 1, 0, "scratch"))
    assert len(paths.close()) == 10
    assert paths.too_many
    whole = Places("/fsx")
    for number in range(30):
        whole.add(Found(f"/fsx/a/{number:03d}", 1, 0, "keep", way="task"))
    assert whole.close() == ["a"]
    assert not whole.too_many


def test_counts_stay_bounded_however_many_folders_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallies, "_GROUPS", 5)
    counted = Tally("/fsx")
    for number in range(200):
        counted.add(Found(f"/fsx/out/{number:04d}/a", 2, 0, "unlinked"))
    shown = counted.to_dict()["unlinked"]
    assert (shown["files"], shown["bytes"], len(shown["names"])) == (200, 400, 100)
    assert sum(each["files"] for each in shown["biggest"]) == 200
    assert len(shown["biggest"]) == 6
    assert set(BLOCKING) >= {"unlinked", "changed-data"}


def test_an_empty_folder_below_the_mount_is_no_file_system() -> None:
    with world() as made, node_root(made.root):
        proc = made.root / "proc/self"
        proc.mkdir(parents=True)
        (proc / "mounts").write_text("/dev/nvme0n1p1 / xfs rw 0 0\n")
        with pytest.raises(Refusal, match="no Lustre file system is mounted at /fsx"):
            check_place(made.settings, made.id, "abc")
        (proc / "mounts").write_text("10.0.0.1@tcp:/other /fsx lustre rw 0 0\n")
        with pytest.raises(Refusal, match="it must be fs-"):
            check_place(made.settings, made.id, "abc")
        (proc / "mounts").write_text("10.0.0.1@tcp:/abc /fsx lustre rw 0 0\n")
        check_place(made.settings, made.id, "abc")
        with pytest.raises(Refusal, match="and not fs-0"):
            check_place(made.settings, "fs-0", "")


# -- the manifest


def test_the_manifest_names_what_is_kept_in_parts_and_its_index_comes_last() -> None:
    with world() as made:
        made.fill()
        with node_root(made.root):
            told = manifest(made.aws, made.settings, run="r", clock=made.aws.clock, part_size=3)
        index = _written(made, places.manifest_key(made.id))
        lines = [
            json.loads(line)
            for part in index["parts"]
            for line in made.aws.s3.content(LAKE)[part["key"]].decode().splitlines()
        ]
        newest = max(made.aws.s3.buckets[LAKE].now().items(), key=lambda each: int(each[1].version[1:]))[0]
    assert {each["path"].removeprefix("/fsx/") for each in lines} == made.kept()
    assert all(each["bucket"] == LAKE and each["key"] == each["path"].removeprefix("/fsx/") for each in lines)
    assert [part["files"] for part in index["parts"]] == [3, 3, 1]
    assert (index["keep_files"], told["parts"]) == (7, 3)
    assert index["keep_bytes"] == sum(each["size"] for each in lines)
    assert index["classes"]["unpromoted"]["files"] == 9
    assert index["recorded"] == []  # nothing is in the lake yet
    assert newest == places.manifest_key(made.id)


def test_checkpoints_that_the_export_took_to_the_lake_get_their_records() -> None:
    with world() as made:
        made.fill()
        assert made.release("prove")["status"] == "done"
        records = [key for key in made.aws.s3.content(LAKE) if key.startswith(places.RECORDS)]
        index = _written(made, places.manifest_key(made.id))
    assert index["recorded"] == ["run1/step-3", "run1/step-5"]
    assert len(records) == 2


def test_what_no_link_takes_to_s3_is_uploaded() -> None:
    with world(links=False) as made:
        made.checkpoint(1)
        made.write("checkpoints/run1/config.json", b"{}")
        state = made.release()
        assert state["status"] == "done", state
        assert made.lake() == made.lost
    assert NAME == "run"
