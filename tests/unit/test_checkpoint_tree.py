"""What lies on a hot tier: a folder, or directory buckets."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.life.fake_aws import FakeAws
from training_storage.node.checkpoints.layouts import find_checkpoints
from training_storage.node.checkpoints.tree import BucketTree, LocalTree
from training_storage.node.sharding import bucket_index


def write(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(path.encode())


def names(tree: LocalTree | BucketTree, under: str = "") -> list[str]:
    return sorted(each.path for each in tree.files(under))


def test_local_files_have_size_and_time(tmp_path: Path) -> None:
    write(tmp_path, "run/step-1/x.pt")
    os.utime(tmp_path / "run/step-1/x.pt", ns=(5, 1_700_000_000_123_456_789))
    (entry,) = LocalTree(str(tmp_path)).files()
    assert (entry.path, entry.size, entry.modified_ns) == ("run/step-1/x.pt", 15, 1_700_000_000_123_456_789)


def test_local_root_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert names(LocalTree(str(tmp_path / "none"))) == []


def test_local_passes_over_what_is_ours_and_what_is_no_file(tmp_path: Path) -> None:
    write(tmp_path, "a.pt", "deep/b.pt", ".training-storage/x", "deep/.training-storage.lock", ".training-storage-y/z")
    os.mkfifo(tmp_path / "pipe")
    assert names(LocalTree(str(tmp_path))) == ["a.pt", "deep/b.pt"]
    assert names(LocalTree(str(tmp_path)), "deep") == ["deep/b.pt"]


def test_local_never_follows_links(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    write(outside, "secret/x.pt")
    write(root, "run/step-1/y.pt")
    (root / "run" / "link").symlink_to(outside / "secret")
    (root / "run" / "latest").symlink_to("step-1")
    tree = LocalTree(str(root))
    assert names(tree) == ["run/step-1/y.pt"]
    assert tree.links == {"run/link": str(outside / "secret"), "run/latest": "step-1"}
    with pytest.raises(OSError, match="link"):
        tree.read("run/link/x.pt")
    tree.remove("run/link/x.pt")
    assert (outside / "secret" / "x.pt").exists()
    with pytest.raises(OSError, match="latest"):
        tree.read("run/latest")


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "a/../../b", "", "a//b", "./a"])
def test_local_paths_stay_below_the_root(tmp_path: Path, path: str) -> None:
    tree = LocalTree(str(tmp_path))
    with pytest.raises(ValueError, match="no path below"):
        tree.read(path)
    with pytest.raises(ValueError, match="no path below"):
        tree.remove(path)


def test_local_names_that_are_no_utf8_keep_their_bytes(tmp_path: Path) -> None:
    (tmp_path / "run" / "step-1").mkdir(parents=True)
    (tmp_path / "run" / "step-1" / os.fsdecode(b"caf\xe9.pt")).write_bytes(b"x")
    tree = LocalTree(str(tmp_path))
    (entry,) = tree.files()
    assert os.fsencode(entry.path) == b"run/step-1/caf\xe9.pt"
    assert tree.read(entry.path) == b"x"
    (found,) = find_checkpoints(tree)
    assert len(found.fingerprint) == 16
    tree.remove(entry.path)
    assert names(tree) == []


def test_local_survives_what_vanishes_meanwhile(tmp_path: Path) -> None:
    write(tmp_path, *(f"run{number}/step-1/{name}.pt" for number in range(20) for name in "abc"))
    tree = LocalTree(str(tmp_path))
    walk: Iterator[Any] = tree.files()
    next(walk)
    for number in range(20):
        for name in "abc":
            (tmp_path / f"run{number}/step-1/{name}.pt").unlink()
        (tmp_path / f"run{number}/step-1").rmdir()
    assert len(list(walk)) < 60


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_local_folder_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "run/step-1/x.pt")
    (tmp_path / "run").chmod(0)
    try:
        with pytest.raises(PermissionError):
            names(LocalTree(str(tmp_path)))
    finally:
        (tmp_path / "run").chmod(0o700)


def test_local_remove_takes_empty_folders_along_but_not_the_root(tmp_path: Path) -> None:
    write(tmp_path, "run/step-1/deep/x.pt", "run/step-2/y.pt")
    tree = LocalTree(str(tmp_path))
    tree.remove("run/step-1/deep/x.pt")
    assert sorted(each.name for each in (tmp_path / "run").iterdir()) == ["step-2"]
    tree.remove("run/step-2/y.pt")
    tree.remove("run/step-2/y.pt")
    assert tmp_path.exists()
    assert list(tmp_path.iterdir()) == []


def test_local_read_stops_at_the_limit(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"0123456789")
    tree = LocalTree(str(tmp_path))
    assert (tree.read("x", 4), tree.read("x")) == (b"0123", b"0123456789")
    with pytest.raises(FileNotFoundError):
        tree.read("y")


def test_local_link_beside_checkpoints_pins(tmp_path: Path) -> None:
    write(tmp_path, *(f"run/step-{step}/{name}" for step in (1, 2, 3) for name in ("x.pt", "DONE")))
    (tmp_path / "run" / "newest").symlink_to("step-2")
    (tmp_path / "best").symlink_to(tmp_path / "run" / "step-3")
    found = find_checkpoints(LocalTree(str(tmp_path)))
    assert [each.pinned for each in found] == [False, True, True]


# -- directory buckets

BUCKETS = ("hot-1--use1-az6--x-s3", "hot-2--use1-az6--x-s3")


def hot(*paths: str) -> tuple[FakeAws, BucketTree]:
    aws = FakeAws()
    for bucket in BUCKETS:
        aws.s3.make(bucket)
    for path in paths:
        key = f"checkpoints/{path}"
        aws("s3").put_object(Bucket=BUCKETS[bucket_index(key, 2)], Key=key, Body=path.encode())
    return aws, BucketTree(aws, BUCKETS, "checkpoints/")


def test_buckets_are_one_tree() -> None:
    paths = [f"run/step-{step}/__{rank}_0.distcp" for step in range(3) for rank in range(700)]
    aws, tree = hot(*paths, *(f"run/step-{step}/.metadata" for step in range(3)), "run/.training-storage/x", "other/")
    aws("s3").put_object(Bucket=BUCKETS[0], Key="datasets/x", Body=b"x")
    found = find_checkpoints(tree)
    assert [(each.path, each.complete, len(each.files)) for each in found] == [
        (f"run/step-{step}", True, 701) for step in range(3)
    ]
    assert {tree.bucket_of(each) for each in paths} == set(BUCKETS)
    assert tree.key_of("run/x") == "checkpoints/run/x"
    assert names(tree, "run/step-1") == sorted(each.path for each in found[1].files)
    assert all(each.etag and '"' not in each.etag for each in found[1].files)
    assert all(each.modified_ns % 10**9 == 0 for each in found[1].files)


def test_bucket_read_and_remove() -> None:
    _, tree = hot("run/x")
    assert tree.read("run/x") == b"run/x"
    assert tree.read("run/x", 3) == b"run"
    tree.remove("run/x")
    tree.remove("run/x")
    with pytest.raises(FileNotFoundError):
        tree.read("run/x")
    assert names(tree) == []


def test_bucket_key_that_lies_twice_counts_where_it_belongs() -> None:
    aws, tree = hot("run/x")
    home = BUCKETS[bucket_index("checkpoints/run/x", 2)]
    (other,) = set(BUCKETS) - {home}
    aws("s3").put_object(Bucket=other, Key="checkpoints/run/x", Body=b"stray copy")
    aws("s3").put_object(Bucket=other, Key="checkpoints/run/y", Body=b"only copy")
    aws("s3").put_object(Bucket=other, Key="checkpoints/run/y/", Body=b"")
    assert {each.path: each.size for each in tree.files()}["run/x"] == 5
    assert (tree.bucket_of("run/x"), tree.bucket_of("run/y")) == (home, other)
    assert tree.read("run/y") == b"only copy"


@pytest.mark.parametrize(("buckets", "prefix"), [((), "checkpoints/"), (BUCKETS, "checkpoints")])
def test_bucket_arguments(buckets: tuple[str, ...], prefix: str) -> None:
    with pytest.raises(ValueError, match="allowed"):
        BucketTree(FakeAws(), buckets, prefix)


def test_the_benchmark_measures_what_it_says(tmp_path: Path) -> None:
    from benchmarks.checkpoints import build, measure

    build(tmp_path, checkpoints=20, files=200)
    measured = measure(tmp_path, 1, checkpoints=20, files=200)
    assert min(measured.find, measured.decide, measured.walk) > 0
