"""The command line where its output cannot be written, odd files, and the rights that deploying needs."""

from __future__ import annotations

import errno
import io
import json
import sys
from pathlib import Path

import pytest

from training_storage.catalog import load_catalog
from training_storage.catalog.files import MAX_BYTES
from training_storage.cli import main
from training_storage.errors import CatalogError

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = str(ROOT / "examples" / "llama3-70b.yaml")
NO_LINKS = str(ROOT / "examples" / "lora-finetune.yaml")


class Broken(io.StringIO):
    """A stream that cannot be written."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self._error = error

    def write(self, _: str) -> int:
        raise self._error


@pytest.fixture
def many_problems(tmp_path: Path) -> str:
    """A workload file with as many problems as fill a pipe."""
    file = tmp_path / "many.yaml"
    file.write_text("".join(f"key{number}: 1\n" for number in range(200)), encoding="utf-8")
    return str(file)


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_reader_that_goes_away_while_problems_are_told(
    many_problems: str, form: str, stream: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, stream, Broken(BrokenPipeError(errno.EPIPE, "Broken pipe")))
    # Text goes to standard error alone: a reader of standard output misses nothing.
    code = 2 if (form, stream) == ("text", "stdout") else 141
    assert main(["validate", many_problems, "--format", form]) == code
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("command", ["plan", "validate"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EBADF])
def test_output_that_cannot_be_written_is_74_and_no_mistake_of_ours(
    command: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", Broken(OSError(code, "no room")))
    assert main([command, EXAMPLE]) == 74
    assert capsys.readouterr().err == "error: the output cannot be written: no room\n"


def test_problems_that_cannot_be_written_are_74(many_problems: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Broken(OSError(errno.ENOSPC, "no room")))
    assert main(["validate", many_problems]) == 74


def test_a_closed_standard_error_does_not_send_errors_to_standard_output(
    many_problems: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["validate", many_problems]) == 2
    assert capsys.readouterr().out == ""


def test_a_closed_standard_output_is_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["plan", EXAMPLE]) == 0


@pytest.mark.parametrize("arguments", [["plan", ""], ["validate", ""], ["plan", EXAMPLE, "--catalog", ""]])
def test_an_empty_file_name_is_bad_usage_and_not_a_folder(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert "the name is empty" in capsys.readouterr().err


# catalog files


@pytest.mark.parametrize("name", ["mine.json", "mine.yaml"])
def test_a_catalog_file_may_begin_with_a_byte_order_mark(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(b'\xef\xbb\xbf{"lustre_limits": {"max_links": {"value": 9}}}')
    assert load_catalog(file).lustre.max_links == 9


@pytest.mark.parametrize("name", ["mine.json", "mine.yaml", "mine"])
def test_a_catalog_file_has_a_bound(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(b" " * (MAX_BYTES + 1))
    with pytest.raises(CatalogError) as caught:
        load_catalog(file)
    assert [each.what for each in caught.value.problems] == ["the file is too large for a catalog file"]


# --rights


def test_report_11_rights_name_bucket_and_objects(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", EXAMPLE, "--rights"]) == 0
    statements = {each["Sid"]: each for each in json.loads(capsys.readouterr().out)["Statement"]}
    bucket = "arn:aws:s3:::${DataLakeBucketName}"
    assert statements["ReadLinkedBuckets"]["Resource"] == [bucket]
    assert statements["ReadAndWriteLinkedObjects"]["Resource"] == [f"{bucket}/*"]


@pytest.mark.parametrize("form", ["text", "json"])
def test_rights_are_json_in_every_form(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", EXAMPLE, "--rights", "--format", form]) == 0
    assert json.loads(capsys.readouterr().out)["Version"] == "2012-10-17"


def test_rights_without_links_are_those_of_the_commands_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", NO_LINKS, "--rights"]) == 0
    found = [each["Sid"] for each in json.loads(capsys.readouterr().out)["Statement"]]
    assert found[0] == "SeeTheStacks"
    assert not {"LinkFileSystem", "ImportListings"} & set(found)


def test_rights_have_those_of_the_commands_after_those_of_the_deploy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", EXAMPLE, "--rights"]) == 0
    found = [each["Sid"] for each in json.loads(capsys.readouterr().out)["Statement"]]
    assert len(set(found)) == len(found)
    deploying, commands = found[: found.index("SeeTheStacks")], found[found.index("SeeTheStacks") :]
    assert "LinkFileSystem" in deploying
    assert {"StartARelease", "SendCommands", "ReadAnswersAndRecords"} <= set(commands)


def test_rights_of_a_broken_file_are_its_problems(many_problems: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", many_problems, "--rights"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "problems" in err


def test_rights_are_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--help"]) == 0
    assert "--rights" in capsys.readouterr().out


@pytest.mark.parametrize(
    "command", [["preload", "run", "--metadata"], ["stage", "run"], ["archive", "run"], ["emulate"]]
)
@pytest.mark.parametrize("value", ["usw2-az4", "us-west-2a", "", "US-WEST-2"])
def test_what_is_no_region_is_said_before_anything_is_asked(
    command: list[str], value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--region", value]) == 2
    assert "a region such as us-east-1" in capsys.readouterr().err
