"""A synthesized CDK app as it lies in ``cdk.out``: its stacks, their order, their assets."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training_storage.emulator.errors import EmulatorError

if TYPE_CHECKING:
    from training_storage.emulator.session import Emulator

_STACK = "aws:cloudformation:stack"
_ASSETS = "cdk:asset-manifest"
_NESTED = "cdk:cloud-assembly"


@dataclass(frozen=True, slots=True)
class StackEntry:
    """One stack of an assembly.

    Attributes:
        artifact_id: Id in the assembly's manifest.
        name: Name of the stack.
        template: Path of its template.
        account: Account it was synthesized for; None when any.
        region: Region it was synthesized for; None when any.
        parameters: Parameter values that the assembly sets.
        tags: Tags of the stack.
        assets: Manifests of its assets.
        after: Ids of the stacks that have to be there before.
    """

    artifact_id: str
    name: str
    template: Path
    account: str | None
    region: str | None
    parameters: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    assets: tuple[Path, ...] = ()
    after: tuple[str, ...] = ()


def read(directory: Path, wanted: Sequence[str] | None = None) -> list[StackEntry]:
    """Return the stacks of an assembly, each after those it depends on.

    Args:
        directory: The cloud assembly.
        wanted: Names or ids of stacks, which come with what they depend on; all when left out.

    Raises:
        EmulatorError: No assembly, or no such stack.
    """
    entries = _collect(directory)
    names = {entry.name: key for key, entry in entries.items()}
    chosen = list(entries) if wanted is None else [name if name in entries else names.get(name, "") for name in wanted]
    if "" in chosen:
        missing = [name for name in wanted or () if name not in entries and name not in names]
        raise EmulatorError(f"the assembly has no stack {', '.join(missing)}; stacks: {', '.join(sorted(names))}")
    ordered: dict[str, StackEntry] = {}

    def visit(key: str) -> None:
        if key in ordered:
            return
        for other in entries[key].after:
            if other in entries:
                visit(other)
        ordered[key] = entries[key]

    for key in chosen:
        visit(key)
    return list(ordered.values())


def _collect(directory: Path) -> dict[str, StackEntry]:
    path = directory / "manifest.json"
    if not path.is_file():
        raise EmulatorError(f"{directory} is no cloud assembly: it has no manifest.json")
    artifacts = json.loads(path.read_text(encoding="utf-8")).get("artifacts", {})
    entries: dict[str, StackEntry] = {}
    for key, artifact in artifacts.items():
        if artifact["type"] == _NESTED:
            entries.update(_collect(directory / artifact["properties"]["directoryName"]))
        elif artifact["type"] == _STACK:
            entries[key] = _stack(directory, key, artifact, artifacts)
    return entries


def _stack(directory: Path, key: str, artifact: Mapping[str, Any], artifacts: Mapping[str, Any]) -> StackEntry:
    properties = artifact["properties"]
    _, _, place = artifact.get("environment", "").partition("//")
    account, _, region = place.partition("/")
    needs = artifact.get("dependencies", [])
    return StackEntry(
        artifact_id=key,
        name=properties.get("stackName", key),
        template=directory / properties["templateFile"],
        account=None if account in ("", "unknown-account") else account,
        region=None if region in ("", "unknown-region") else region,
        parameters={name: str(value) for name, value in properties.get("parameters", {}).items()},
        tags=dict(properties.get("tags", {})),
        assets=tuple(
            directory / artifacts[name]["properties"]["file"]
            for name in needs
            if name in artifacts and artifacts[name]["type"] == _ASSETS
        ),
        after=tuple(name for name in needs if name in artifacts and artifacts[name]["type"] == _STACK),
    )


def upload(aws: Emulator, entry: StackEntry, account: str, region: str) -> None:
    """Put a stack's file assets where its template looks for them.

    Raises:
        EmulatorError: An asset is a container image, or has to be built by a command.
    """
    for path in entry.assets:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        if manifest.get("dockerImages"):
            raise EmulatorError(f"stack {entry.name} has container image assets, which the emulator does not build")
        for asset in manifest.get("files", {}).values():
            source = asset["source"]
            if "path" not in source:
                raise EmulatorError(f"stack {entry.name} has an asset that a command builds: {source}")
            body = _contents(path.parent / source["path"], source.get("packaging", "file"))
            for destination in asset["destinations"].values():
                place = {"AWS::AccountId": account, "AWS::Region": region, "AWS::Partition": _partition(region)}
                bucket, object_key = (_filled(destination[name], place) for name in ("bucketName", "objectKey"))
                aws.client("s3", account=account, region=region).put_object(Bucket=bucket, Key=object_key, Body=body)


def _filled(text: str, place: Mapping[str, str]) -> str:
    for name, value in place.items():
        text = text.replace("${" + name + "}", value)
    return text


def _partition(region: str) -> str:
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"


def _contents(path: Path, packaging: str) -> bytes:
    if packaging != "zip":
        return path.read_bytes()
    if path.is_file():
        return path.read_bytes()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as bundle:
        for file in sorted(path.rglob("*")):
            if file.is_file():
                bundle.write(file, file.relative_to(path).as_posix())
    return archive.getvalue()
