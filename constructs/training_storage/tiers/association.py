"""Links between directories of a Lustre file system and prefixes of buckets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

import aws_cdk as cdk
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_s3 as s3
from constructs import Construct

from training_storage._arguments import FLAG, GENERAL_PURPOSE_BUCKET, TEXT, TEXTS, WHOLE, Kind, misfits, optional
from training_storage.errors import Problem, ValidationError
from training_storage.rules.base import find_problems, relabel
from training_storage.rules.links import (
    LINK_CONSTRUCT_PATHS,
    LINK_RULES,
    LinkSettings,
    normalized_path,
    normalized_prefix,
)
from training_storage.rules.lustre import LUSTRE_CONSTRUCT_PATHS, LUSTRE_RULES
from training_storage.tiers import _iam, _kms, _warnings
from training_storage.tiers._lustre_base import LustreFileSystemBase
from training_storage.tiers._tokens import concrete, is_concrete, whole
from training_storage.tiers.data_lake import DataLake

LinkEvent = Literal["new", "changed", "deleted"]

_FILE_SYSTEM: Final = Kind(
    allowed="a LustreFileSystem",
    fits=lambda value: isinstance(value, LustreFileSystemBase),
    fix="make one in this app, or take one that exists with LustreFileSystem.from_attributes",
)


class DataRepositoryAssociation(Construct):
    """A link: what is under a prefix of a bucket appears under a directory of the file system, read on first use.

    By default nothing is imported or exported by itself. Exporting ``deleted`` means that removing a file on the file
    system removes the object: leave it out where checkpoints are pruned. A link cannot export by itself and be exported
    by a task at once.

    Links of one file system are made one after another, each after its bucket, the bucket's policy and its key: made
    at once, FSx may find that it cannot reach the bucket. A link lives and goes with its file system, and with its own
    stack where the file system is one that exists already; it holds no data, and removing it leaves files and objects
    where they are. What was changed and not exported is then only on the file system.

    ``file_system_path``, ``bucket``, ``bucket_prefix`` and ``batch_import_meta_data_on_create`` cannot be changed:
    CloudFormation would make the new link before it deletes the old one, and FSx refuses two links that share a
    directory or a prefix, so the update fails and is rolled back. Deploy once without the link, and then with the new
    one; what was read or written stays on the file system meanwhile.

    Example::

        DataRepositoryAssociation(
            self, "Datasets",
            file_system=hot,
            file_system_path="/datasets",
            bucket=lake,
            bucket_prefix="datasets/",
            import_events=["new", "changed"],
        )

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        file_system: The file system, made here or taken with ``LustreFileSystem.from_attributes``; not
            INTELLIGENT_TIERING, not Lustre 2.10, and without backups. At most 8 links.
        file_system_path: Directory such as ``/datasets``. ``/`` only where it is the only link.
        bucket: Bucket, or data lake; in the region of the file system where anything is imported.
        bucket_prefix: Key prefix; a trailing slash is added. Left out, the whole bucket.
        import_events: What FSx imports by itself: ``new``, ``changed``, ``deleted`` objects. Left out, nothing.
        export_events: What FSx exports by itself. Left out, nothing.
        batch_import_meta_data_on_create: Whether the listing is imported while the link is made. Left out, not.
            Millions of objects take longer than CloudFormation waits; import them by a task.
        imported_file_chunk_size_mib: Most data of an imported file on one disk, 1 to 512,000 MiB. Left out, 1024.

    Raises:
        ValidationError: An argument breaks a rule, alone or with the other links of the file system; nothing is added.

    Attributes:
        resource: The ``AWS::FSx::DataRepositoryAssociation`` itself.
        file_system: The file system.
        bucket: The bucket.
        file_system_path: Directory, with a leading and without a trailing slash.
        data_repository_path: The ``s3://`` address.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        file_system: LustreFileSystemBase,
        file_system_path: str,
        bucket: s3.IBucket | DataLake,
        bucket_prefix: str = "",
        import_events: Sequence[LinkEvent] = (),
        export_events: Sequence[LinkEvent] = (),
        batch_import_meta_data_on_create: bool = False,
        imported_file_chunk_size_mib: float | None = None,
    ) -> None:
        where = f"{scope.node.path}/{construct_id}".lstrip("/")
        if wrong := misfits(
            {
                "file_system": (file_system, _FILE_SYSTEM),
                "file_system_path": (file_system_path, TEXT),
                "bucket": (bucket, GENERAL_PURPOSE_BUCKET),
                "bucket_prefix": (bucket_prefix, TEXT),
                "import_events": (import_events, TEXTS),
                "export_events": (export_events, TEXTS),
                "batch_import_meta_data_on_create": (batch_import_meta_data_on_create, FLAG),
                "imported_file_chunk_size_mib": (imported_file_chunk_size_mib, optional(WHOLE)),
            }
        ):
            raise ValidationError(wrong, where=where)
        lake = bucket if isinstance(bucket, DataLake) else None
        target = bucket.bucket if isinstance(bucket, DataLake) else bucket
        problems: list[Problem] = []
        settings = LinkSettings(
            catalog=file_system._settings.catalog,
            path=concrete(file_system_path),
            bucket=concrete(target.bucket_name) or target.node.path,
            prefix=concrete(bucket_prefix),
            import_events=_known(import_events),
            export_events=_known(export_events),
            chunk_size_mib=whole(imported_file_chunk_size_mib, "imported_file_chunk_size_mib", problems),
            bucket_region=concrete(target.env.region),
            file_system_region=concrete(cdk.Stack.of(file_system).region),
        )
        links = (*file_system._link_settings, settings)
        before = find_problems(LINK_RULES, file_system._link_settings)
        new = [problem for problem in find_problems(LINK_RULES, links) if problem not in before]
        problems += relabel(new, LINK_CONSTRUCT_PATHS)
        problems += relabel(
            find_problems(LUSTRE_RULES, replace(file_system._settings, linked=True)),
            {**LUSTRE_CONSTRUCT_PATHS, "linked": "file_system"},
        )
        problems += _out_of_order(scope, file_system)
        if problems:
            raise ValidationError(problems, where=where)
        super().__init__(scope, construct_id)

        self.file_system: Final = file_system
        self.bucket: Final = target
        self.file_system_path: Final = file_system_path if settings.path is None else normalized_path(file_system_path)
        prefix = bucket_prefix if settings.prefix is None else normalized_prefix(bucket_prefix)
        self.data_repository_path: Final = f"s3://{target.bucket_name}/{prefix}"
        self.resource: Final = fsx.CfnDataRepositoryAssociation(
            self,
            "Resource",
            file_system_id=file_system.file_system_id,
            file_system_path=self.file_system_path,
            data_repository_path=self.data_repository_path,
            batch_import_meta_data_on_create=batch_import_meta_data_on_create,
            imported_file_chunk_size=imported_file_chunk_size_mib,
            s3=_events(import_events, export_events),
        )
        self.resource.apply_removal_policy(file_system._link_removal)
        key = lake.encryption_key if lake is not None else target.encryption_key
        for earlier in (target, key, *file_system.links[-1:]):
            if earlier is not None:
                self.resource.node.add_dependency(earlier)
        file_system._take_link(self, settings)
        if lake is None and key is not None:
            _warnings.warn(
                self,
                _warnings.KEY_POLICY,
                "this link works once the owner of the bucket's key has added to the key's policy: "
                + _iam.as_json(self, _kms.fsx_statement(self, target.bucket_arn)),
            )

    @property
    def association_id(self) -> str:
        """Id such as ``dra-0123456789abcdef0``."""
        return self.resource.attr_association_id


def _out_of_order(scope: Construct, file_system: LustreFileSystemBase) -> list[Problem]:
    """Links are made one after another, so none can come after one of a stack that waits for its own stack."""
    here, before = cdk.Stack.of(scope).node.path, [cdk.Stack.of(link).node.path for link in file_system.links]
    if not file_system._exists_already:
        before.insert(0, cdk.Stack.of(file_system).node.path)
    if not before or here == before[-1] or here not in before:
        return []
    return [
        Problem(
            what=f"the link {file_system.links[-1].node.path} of another stack was made before this one, and the two "
            "stacks would wait for each other",
            path="file_system",
            allowed="the links of one stack after another, those in the file system's own stack first",
            fix="move this line up, before the links of other stacks",
        )
    ]


def _known(events: Sequence[str]) -> tuple[str, ...] | None:
    return tuple(events) if not isinstance(events, str) and is_concrete(list(events)) else None


def _events(
    import_events: Sequence[str], export_events: Sequence[str]
) -> fsx.CfnDataRepositoryAssociation.S3Property | None:
    imported, exported = _upper(import_events), _upper(export_events)
    if not imported and not exported:
        return None
    make = fsx.CfnDataRepositoryAssociation
    return make.S3Property(
        auto_import_policy=make.AutoImportPolicyProperty(events=imported) if imported else None,
        auto_export_policy=make.AutoExportPolicyProperty(events=exported) if exported else None,
    )


def _upper(events: Sequence[str]) -> list[str]:
    """Events as the API writes them; tokens stay as they are."""
    if not is_concrete(list(events)):
        return list(events)
    return [event.upper() for event in events]
