"""For the tests of users: templates without what moves by itself, and the logical ids of a stack.

Standard library only: nothing here starts Node, and a template can come from anywhere, from ``Template.from_stack`` as
well as from a file of ``cdk.out``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from training_storage.errors import Problem, ValidationError

ASSET = "ASSET"
"""What stands in a template in place of the hash of an asset."""

_HASH = re.compile(r"(?<![0-9A-Za-z])[0-9a-f]{64}(?![0-9A-Za-z])")
# Buckets and repositories that `cdk bootstrap` and the staging synthesizer make.
_ASSET_STORE = re.compile(r"\bcdk-[a-z0-9-]+-(?:container-)?(?:assets|staging)\b")
# A path in one of them, up to a hash: /NAME of a file, :TAG of an image.
_STORED = re.compile(_ASSET_STORE.pattern + r"[^\s'\"]*[/:]$")
_KEY_PROPERTY = re.compile(r"keys?$", re.IGNORECASE)
_FILE_PROPERTIES = frozenset({"S3Key", "TemplateURL"})
_BOOTSTRAP_PARAMETER = "/cdk-bootstrap/"


def still(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return a template without what moves while nothing of yours has changed, for a snapshot test.

    A snapshot of the result changes when a resource, a property, a parameter or an output does, and stays when only the
    bytes of a script, the version of the CDK command line or the bootstrap stack differ. Taken out are:

    - the hash of each asset (a file, a folder, a nested template or an image that CDK uploads), wherever it stands: as
      ``S3Key`` of a function, in user data, in a policy, in a ``TemplateURL``, as tag of an image, in
      ``aws:asset:path``; ``ASSET`` stands there, with the ending of the file;
    - the parameter ``BootstrapVersion`` and the rule ``CheckBootstrapVersion`` of CDK's synthesizers;
    - the resource ``CDKMetadata`` and the condition ``CDKMetadataAvailable``, which count the versions in use;
    - the order of keys: they are sorted.

    A section that is empty after that is left out. Nothing else is touched. Sixty-four hexadecimal digits are the hash
    of an asset only where they name what CDK uploads: the digest of an image (``sha256:...``), a checksum in user data
    or a key of yours stay as they are, and so do accounts, regions, zones and names.

    The logical id of an ``AWS::Lambda::Version`` holds a hash of its own, which CDK makes of the function; it stays,
    since a new id there is a new version.

    Example::

        from aws_cdk.assertions import Template
        from training_storage.testing import still

        def test_template(snapshot):
            assert still(Template.from_stack(stack).to_json()) == snapshot

    Args:
        template: A CloudFormation template as plain data.

    Raises:
        ValidationError: What is given is not a template as plain data.
    """
    shown = _plain(template)
    parameters = shown.get("Parameters", {})
    if _BOOTSTRAP_PARAMETER in str(parameters.get("BootstrapVersion", {}).get("Default", "")):
        del parameters["BootstrapVersion"]
    shown.get("Rules", {}).pop("CheckBootstrapVersion", None)
    if shown.get("Resources", {}).get("CDKMetadata", {}).get("Type") == "AWS::CDK::Metadata":
        del shown["Resources"]["CDKMetadata"]
        shown.get("Conditions", {}).pop("CDKMetadataAvailable", None)
    hashes = {
        found
        for section in ("Resources", "Outputs")
        for entry in shown.get(section, {}).values()
        for found in _asset_hashes(entry)
    }
    masked = _masked({name: section for name, section in shown.items() if section not in ({}, [])}, hashes)
    return dict(json.loads(json.dumps(masked, sort_keys=True)))


def logical_ids(template: Mapping[str, Any]) -> dict[str, str]:
    """Return the type of each resource by its logical id, sorted by id.

    A snapshot of it is the smallest one worth having: a logical id that changes is another resource to CloudFormation,
    and the one before it is deleted, or left behind, with its data.

    Example::

        assert logical_ids(Template.from_stack(stack).to_json()) == snapshot

    Args:
        template: A CloudFormation template as plain data.

    Raises:
        ValidationError: What is given is not a template as plain data.
    """
    resources = _plain(template).get("Resources", {})
    return {name: resources[name]["Type"] for name in sorted(resources)}


def _plain(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a template that shares nothing with it."""
    try:
        copy = json.loads(json.dumps(dict(template)))
        fits = all(isinstance(copy.get(name, {}), dict) for name in ("Resources", "Parameters", "Rules", "Conditions"))
        fits = fits and all(isinstance(entry, dict) and "Type" in entry for entry in copy.get("Resources", {}).values())
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise ValidationError(
            Problem(
                what="not a CloudFormation template as plain data",
                path="template",
                value=type(template).__name__,
                allowed="a dict of sections such as Resources, Parameters and Outputs",
                fix="Template.from_stack(stack).to_json(), or json.loads of a template of cdk.out",
            )
        )
    return dict(copy)


def _asset_hashes(entry: Any) -> Iterator[str]:
    """Return the hashes in a resource or an output that name something which CDK uploads."""
    texts = list(_texts(entry))
    stored = any(_ASSET_STORE.search(text) for _, text in texts)
    for key, text in texts:
        for match in _HASH.finditer(text):
            before, after = text[: match.start()], text[match.end() :]
            ending = re.match(r"\.[a-z0-9]", after) is not None
            if before.endswith("asset.") or key in _FILE_PROPERTIES:
                yield match[0]
            elif before.endswith(("/", ":")):
                # A path or a tag says itself where it lies; one in another bucket is the user's own.
                if _STORED.search(before) and (ending or not after):
                    yield match[0]
            elif stored and (ending or (not before and not after and _KEY_PROPERTY.search(key))):
                yield match[0]


def _texts(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Return every text in a value, put together again, with the nearest key above it that is no function."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, key)
    elif isinstance(value, dict):
        if (parts := _joined(value)) is not None:
            yield key, parts
        for name, item in value.items():
            if parts is None:
                yield from _texts(item, key if name.startswith("Fn::") else name)


def _joined(value: Any) -> str | None:
    """Return the text of an ``Fn::Join`` or ``Fn::Sub``, with ``${}`` for what is known later; None for others."""
    match value:
        case {"Fn::Join": [str(separator), [*parts]]}:
            return separator.join(part if isinstance(part, str) else _joined(part) or "${}" for part in parts)
        case {"Fn::Sub": str(text)}:
            return text
    return None


def _masked(value: Any, hashes: set[str]) -> Any:
    if isinstance(value, str):
        return _HASH.sub(lambda match: ASSET if match[0] in hashes else match[0], value)
    if isinstance(value, list):
        return [_masked(item, hashes) for item in value]
    if isinstance(value, dict):
        return {name: _masked(item, hashes) for name, item in value.items()}
    return value
