"""The emulator inside this process: deploy, ask, update, destroy."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from training_storage.emulator import _moto
from training_storage.emulator.errors import EmulatorError, StackEvent, StackFailedError
from training_storage.emulator.operation import Operation
from training_storage.emulator.process import DEFAULT_ACCOUNT, corrected_moto, own_settings
from training_storage.emulator.storage import Storage
from training_storage.emulator.world import surroundings

if TYPE_CHECKING:
    from training_storage.emulator.providers.base import Resource
    from training_storage.emulator.server import Server
    from training_storage.emulator.stack import EmulatedStack

DEFAULT_REGION = "us-east-1"


class StackArtifact(Protocol):
    """What ``aws_cdk.cx_api.CloudFormationStackArtifact`` looks like from here."""

    @property
    def template_full_path(self) -> str:
        """The synthesized template."""

    @property
    def stack_name(self) -> str:
        """Name of the stack."""


class Stack:
    """A stack as it was after a deploy, update or destroy.

    Attributes:
        name: Name of the stack.
        id: ARN of the stack.
        status: For example ``CREATE_COMPLETE``.
        outputs: Outputs by name.
        events: All events so far, oldest first.
    """

    def __init__(self, stack: EmulatedStack) -> None:
        self.name = stack.name
        self.id = stack.stack_id
        self.status = stack.status
        self.outputs: dict[str, str] = {item["OutputKey"]: item["OutputValue"] for item in stack.outputs}
        self.events: tuple[StackEvent, ...] = stack.history()
        self._resources = dict(stack.resources)

    @property
    def physical_ids(self) -> dict[str, str]:
        """Physical ids by logical id."""
        return {name: resource.physical_resource_id for name, resource in self._resources.items()}

    def resource(self, logical_id: str) -> Resource:
        """Return what the stack knows about a resource: type, physical id, resolved properties.

        Raises:
            KeyError: The stack has no such resource.
        """
        return self._resources[logical_id]

    def of_type(self, resource_type: str) -> dict[str, Resource]:
        """Return the resources of one type by logical id."""
        return {name: item for name, item in self._resources.items() if item.cf_resource_type == resource_type}


class Emulator(Storage, Operation):
    """The emulated AWS of this process; made by ``emulator()``.

    Attributes:
        account: Account that callers without another one belong to.
        region: Region that is meant where none is named.
    """

    def __init__(self, account: str, region: str) -> None:
        self.account = account
        self.region = region

    @property
    def server(self) -> Server:
        """The same services over HTTP, for other processes; started when first asked for."""
        from training_storage.emulator import server

        return server.shared()

    def client(self, service: str, *, region: str | None = None, account: str | None = None) -> Any:
        """Return a boto3 client of an emulated service.

        Args:
            service: boto3's name of the service.
            region: Region; the emulator's when left out.
            account: Account; the emulator's when left out.
        """
        from training_storage.emulator import clients

        return clients.client(service, account or self.account, region or self.region)

    def deploy(
        self,
        template: Mapping[str, Any] | str | Path | StackArtifact,
        name: str | None = None,
        parameters: Mapping[str, str] | None = None,
        *,
        tags: Mapping[str, str] | None = None,
        region: str | None = None,
        account: str | None = None,
    ) -> Stack:
        """Create the stack, or update it if it exists; return when it is done.

        Args:
            template: A template as data, as JSON or YAML text, a path to one, or a synthesized stack of the CDK.
            name: Name of the stack; that of the synthesized stack when left out.
            parameters: Values of parameters; defaults when left out.
            tags: Tags of the stack, which its resources inherit.
            region: Region; the emulator's when left out.
            account: Account; the emulator's when left out.

        Raises:
            StackFailedError: The template was refused, or the stack did not get there; with the first reason.
        """
        from training_storage.emulator.services import cloudformation

        body, stack_name = _body(template), name or getattr(template, "stack_name", None)
        if not stack_name:
            raise EmulatorError("a stack needs a name")
        self.bootstrap(region=region, account=account)
        backend = self._backend(account, region)
        existing = cloudformation.find(backend, stack_name)
        if existing is not None and existing.status == "ROLLBACK_COMPLETE":
            # what a failed create left is only good for deleting: the command line does the same
            cloudformation.delete(backend, stack_name)
            existing = None
        return self._run(stack_name, body, parameters, tags, backend, update=existing is not None)

    def update(
        self,
        name: str,
        template: Mapping[str, Any] | str | Path | StackArtifact,
        parameters: Mapping[str, str] | None = None,
        *,
        tags: Mapping[str, str] | None = None,
        region: str | None = None,
        account: str | None = None,
    ) -> Stack:
        """Update a stack that exists; an update that changes nothing leaves everything as it is.

        Args:
            name: Name of the stack.
            template: As for ``deploy``.
            parameters: As for ``deploy``.
            tags: As for ``deploy``.
            region: As for ``deploy``.
            account: As for ``deploy``.

        Raises:
            StackFailedError: There is no such stack, the template was refused, or the stack was rolled back.
        """
        return self._run(name, _body(template), parameters, tags, self._backend(account, region), update=True)

    def _run(
        self,
        name: str,
        body: str,
        parameters: Mapping[str, str] | None,
        tags: Mapping[str, str] | None,
        backend: Any,
        *,
        update: bool,
    ) -> Stack:
        from moto.cloudformation.exceptions import CloudFormationError

        from training_storage.emulator.services import cloudformation
        from training_storage.emulator.template import TemplateError, parse

        before = cloudformation.find(backend, name)
        since = len(before.events) if before else 0
        given = {key: str(value) for key, value in (parameters or {}).items()}
        try:
            template = parse(body)
            if update:
                own_tags = None if tags is None else dict(tags)
                stack = cloudformation.update(backend, name, template, given, own_tags)
            else:
                stack = cloudformation.create(backend, name, template, given, tags=dict(tags or {}))
        except (CloudFormationError, TemplateError) as error:
            message = getattr(error, "message", None) or str(error)
            if before is not None and "No updates are to be performed" in message:
                return Stack(before)
            raise StackFailedError(name, "", message) from None
        if stack.status not in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
            raise StackFailedError(name, stack.status, stack.first_failure(since), stack.history())
        return Stack(stack)

    def destroy(
        self, name: str, *, retain: Sequence[str] = (), region: str | None = None, account: str | None = None
    ) -> Stack:
        """Delete a stack; what its template retains stays in the emulated services.

        Args:
            name: Name of the stack.
            retain: Logical ids to keep although the template does not say so.
            region: Region; the emulator's when left out.
            account: Account; the emulator's when left out.

        Raises:
            StackFailedError: There is no such stack, or it could not be deleted; with the first reason.
        """
        from training_storage.emulator.services import cloudformation

        backend = self._backend(account, region)
        stack = cloudformation.find(backend, name)
        if stack is None:
            raise StackFailedError(name, "", "there is no such stack")
        since = len(stack.events)
        cloudformation.delete(backend, name, tuple(retain))
        if stack.status != "DELETE_COMPLETE":
            reason = stack.first_failure(since) or str(stack.status_reason)
            raise StackFailedError(name, stack.status, reason, stack.history())
        return Stack(stack)

    def stack(self, name: str, *, region: str | None = None, account: str | None = None) -> Stack:
        """Return a stack as it is now.

        Raises:
            StackFailedError: There is no such stack.
        """
        from training_storage.emulator.services import cloudformation

        found = cloudformation.find(self._backend(account, region), name)
        if found is None:
            raise StackFailedError(name, "", "there is no such stack")
        return Stack(found)

    def stacks(self, *, region: str | None = None, account: str | None = None) -> list[str]:
        """Return the names of all stacks, oldest first."""
        return [stack.name for stack in self._backend(account, region).stacks.values()]

    def deploy_assembly(
        self,
        directory: str | Path,
        stacks: Sequence[str] | None = None,
        parameters: Mapping[str, Mapping[str, str]] | None = None,
    ) -> dict[str, Stack]:
        """Deploy the stacks of a synthesized CDK app, with their file assets, in the order of their dependencies.

        Args:
            directory: The cloud assembly (``cdk.out``).
            stacks: Names of the stacks to deploy, with what they depend on; all when left out.
            parameters: Parameter values by stack name.

        Returns:
            The stacks by name, in the order they were deployed.

        Raises:
            StackFailedError: A stack did not get there; those before it stay.
            EmulatorError: The assembly has something that cannot be deployed here, a container image for example.
        """
        from training_storage.emulator import assembly

        deployed: dict[str, Stack] = {}
        for entry in assembly.read(Path(directory), stacks):
            account, region = entry.account or self.account, entry.region or self.region
            self.bootstrap(account=account, region=region)
            assembly.upload(self, entry, account, region)
            deployed[entry.name] = self.deploy(
                entry.template,
                entry.name,
                {**entry.parameters, **(parameters or {}).get(entry.name, {})},
                tags=entry.tags,
                account=account,
                region=region,
            )
        return deployed

    def bootstrap(self, *, account: str | None = None, region: str | None = None, qualifier: str = "hnb659fds") -> str:
        """Make what ``cdk bootstrap`` would have made, as far as a deploy needs it; return the asset bucket's name.

        A second call does nothing. Roles are left out: nothing is enforced here.
        """
        from botocore.exceptions import ClientError

        account, region = account or self.account, region or self.region
        bucket = f"cdk-{qualifier}-assets-{account}-{region}"
        s3, ssm = (self.client(name, account=account, region=region) for name in ("s3", "ssm"))
        try:
            s3.head_bucket(Bucket=bucket)
        except ClientError:
            where = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
            s3.create_bucket(Bucket=bucket, **where)
            # the version that stacks of today's CDK check for is 6; a fresh bootstrap is far above it
            ssm.put_parameter(Name=f"/cdk-bootstrap/{qualifier}/version", Value="30", Type="String", Overwrite=True)
        return bucket

    def _backend(self, account: str | None, region: str | None) -> Any:
        from moto.cloudformation.models import cloudformation_backends

        return cloudformation_backends[account or self.account][region or self.region]


def _body(template: Mapping[str, Any] | str | Path | StackArtifact) -> str:
    if isinstance(template, Mapping):
        return json.dumps(template)
    if isinstance(template, Path):
        return template.read_text(encoding="utf-8")
    if isinstance(template, str):
        return template
    return Path(template.template_full_path).read_text(encoding="utf-8")


@contextmanager
def emulator(*, account: str = DEFAULT_ACCOUNT, region: str = DEFAULT_REGION) -> Iterator[Emulator]:
    """Run an emulated AWS in this process: every boto3 client made while it runs talks to it.

    It starts empty. One inside another has a world of its own; that of the outer one comes back when it ends.

    Args:
        account: Account id of the caller; that of a template with an account of its own, if it has one.
        region: Region that is meant where none is named.

    Raises:
        EmulatorUnavailableError: The ``emulator`` extra is not installed.
        EmulatorError: The account id is none.
    """
    _moto.require()
    if len(account) != 12 or not account.isdigit():
        raise EmulatorError(f"an account id has 12 digits, got {account!r}")
    with own_settings(region), corrected_moto(account), surroundings():
        yield Emulator(account, region)
