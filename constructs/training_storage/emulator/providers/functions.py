"""Lambda functions, custom resources that really call them, and state machines that really run."""

from __future__ import annotations

import io
import json
import threading
import uuid
import zipfile
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from training_storage.emulator.providers.base import Context, Made, Provider, Resource, ResourceError, or_undo

# Properties of a function that the API takes under the same name, at creation and when its configuration changes.
_CONFIGURATION = (
    "Description", "Environment", "EphemeralStorage", "Handler", "Layers", "LoggingConfig", "MemorySize", "Role",
    "Runtime", "Timeout", "TracingConfig", "VpcConfig", "DeadLetterConfig", "KmsKeyArn",
)  # fmt: skip


def _code(value: dict[str, Any]) -> dict[str, Any]:
    """Say the code the way the API does; code in the template becomes ``index.py``, as CloudFormation does it."""
    if "ZipFile" in value:
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as bundle:
            bundle.writestr("index.py", value["ZipFile"])
        return {"ZipFile": archive.getvalue()}
    return {name: value[name] for name in ("S3Bucket", "S3Key", "S3ObjectVersion", "ImageUri") if name in value}


def _names(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        ("KMSKeyArn" if name == "KmsKeyArn" else name): properties[name]
        for name in _CONFIGURATION
        if name in properties
    }


class Function(Provider):
    """AWS::Lambda::Function."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Create the function."""
        name = properties.get("FunctionName") or context.generated_name(64)
        more = {key: properties[key] for key in ("Architectures", "PackageType", "ImageConfig") if key in properties}
        answer = context.client("lambda").create_function(
            FunctionName=name,
            Code=_code(properties["Code"]),
            Tags=context.all_tags(properties),
            **_names(properties),
            **more,
        )
        with or_undo(lambda: context.client("lambda").delete_function(FunctionName=name)):
            self._concurrency(context, name, {}, properties)
        return Made(name, {"Arn": answer["FunctionArn"]})

    def _concurrency(self, context: Context, name: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        key = "ReservedConcurrentExecutions"
        if key in new:
            context.client("lambda").put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=new[key])
        elif key in old:
            context.client("lambda").delete_function_concurrency(FunctionName=name)

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Change code, configuration and tags."""
        functions, name, old = context.client("lambda"), resource.physical_resource_id, resource.properties
        if old["Code"] != properties["Code"]:
            functions.update_function_code(FunctionName=name, **_code(properties["Code"]))
        functions.update_function_configuration(FunctionName=name, **_names(properties))
        self._concurrency(context, name, old, properties)
        functions.tag_resource(Resource=resource.attributes["Arn"], Tags=context.all_tags(properties))
        return Made(name, resource.attributes)

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the function."""
        context.client("lambda").delete_function(FunctionName=resource.physical_resource_id)


class Layer(Provider):
    """AWS::Lambda::LayerVersion; ``Ref`` is its ARN."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Publish the version."""
        name = properties.get("LayerName") or context.generated_name(64)
        given = {
            key: properties[key]
            for key in ("Description", "CompatibleRuntimes", "CompatibleArchitectures", "LicenseInfo")
            if key in properties
        }
        answer = context.client("lambda").publish_layer_version(
            LayerName=name, Content=_code(properties["Content"]), **given
        )
        arn = answer["LayerVersionArn"]
        return Made(arn, {"LayerVersionArn": arn})

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the version."""
        layer, _, version = resource.physical_resource_id.rpartition(":")
        context.client("lambda").delete_layer_version(LayerName=layer, VersionNumber=int(version))


class Permission(Provider):
    """AWS::Lambda::Permission."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Add the statement."""
        statement = context.generated_name(100)
        given = {
            key: properties[key]
            for key in ("Action", "FunctionName", "Principal", "SourceArn", "SourceAccount", "EventSourceToken")
            if key in properties
        }
        context.client("lambda").add_permission(StatementId=statement, **given)
        return Made(statement, {"Id": statement})

    def delete(self, context: Context, resource: Resource) -> None:
        """Take the statement away."""
        context.client("lambda").remove_permission(
            FunctionName=resource.properties["FunctionName"], StatementId=resource.physical_resource_id
        )


class StateMachine(Provider):
    """AWS::StepFunctions::StateMachine; the definition is parsed when it is made."""

    def _definition(self, properties: dict[str, Any]) -> str:
        if "DefinitionString" in properties:
            text = str(properties["DefinitionString"])
        elif "Definition" in properties:
            definition = properties["Definition"]
            text = definition if isinstance(definition, str) else json.dumps(definition)
        else:
            raise ResourceError(
                "the emulator takes DefinitionString or Definition of a state machine, not an S3 location"
            )
        for name, value in (properties.get("DefinitionSubstitutions") or {}).items():
            text = text.replace("${" + name + "}", str(value))
        return text

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Create the machine."""
        name = properties.get("StateMachineName") or context.generated_name(80)
        kind = {"type": properties["StateMachineType"]} if "StateMachineType" in properties else {}
        arn = context.client("stepfunctions").create_state_machine(
            name=name,
            definition=self._definition(properties),
            roleArn=properties["RoleArn"],
            tags=[{"key": key, "value": value} for key, value in context.all_tags(properties).items()],
            **kind,
        )["stateMachineArn"]
        return Made(arn, {"Arn": arn, "Name": name, "StateMachineRevisionId": "INITIAL"})

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Change definition, role and tags."""
        machines, arn = context.client("stepfunctions"), resource.physical_resource_id
        machines.update_state_machine(
            stateMachineArn=arn, definition=self._definition(properties), roleArn=properties["RoleArn"]
        )
        tags = [{"key": key, "value": value} for key, value in context.all_tags(properties).items()]
        machines.tag_resource(resourceArn=arn, tags=tags)
        return Made(arn, {**resource.attributes, "StateMachineRevisionId": str(uuid.uuid4())})

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the machine."""
        context.client("stepfunctions").delete_state_machine(stateMachineArn=resource.physical_resource_id)


class _Mailbox:
    """The ``ResponseURL`` of one call: takes the one answer that a handler puts there."""

    def __init__(self) -> None:
        self.answer: dict[str, Any] = {}
        mailbox = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                mailbox.answer = dict(json.loads(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        # A server looks that often whether it is to stop; half a second, its default, is long for one answer.
        look = {"poll_interval": 0.01}
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs=look, daemon=True)

    def __enter__(self) -> _Mailbox:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/response"


class CustomResource(Provider):
    """``Custom::*`` and AWS::CloudFormation::CustomResource: the function behind it is called and waited for."""

    def check(self, properties: dict[str, Any]) -> dict[str, Any]:
        """Only the service token is known; everything reaches the function as text, as on AWS."""
        if not isinstance(properties.get("ServiceToken"), str):
            raise ResourceError("a custom resource needs a ServiceToken")
        return {name: _as_text(value) for name, value in properties.items()}

    def has_attribute(self, name: str) -> bool:  # noqa: ARG002 - as its base has it
        """Nobody knows before the function has answered."""
        return True

    def replaced_by(self, old: dict[str, Any], new: dict[str, Any]) -> list[str]:
        """Another function is another resource; everything else the function decides by the id it answers."""
        return ["ServiceToken"] if old.get("ServiceToken") != new.get("ServiceToken") else []

    def custom_named(self, old: dict[str, Any], new: dict[str, Any]) -> list[str]:  # noqa: ARG002 - as its base has it
        """A custom resource has no name."""
        return []

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Call the function with Create."""
        answer = self._call(context, "Create", properties)
        return Made(answer.get("PhysicalResourceId") or context.generated_name(), answer.get("Data") or {})

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Call the function with Update; another id in its answer means that the old one is to be deleted."""
        answer = self._call(
            context,
            "Update",
            properties,
            PhysicalResourceId=resource.physical_resource_id,
            OldResourceProperties=resource.properties,
        )
        return Made(answer.get("PhysicalResourceId") or resource.physical_resource_id, answer.get("Data") or {})

    def half_updated(self, error: Exception) -> bool:  # noqa: ARG002 - as its base has it
        """Nobody knows what a function did before it said no: a rollback sends it the old properties."""
        return True

    def delete(self, context: Context, resource: Resource) -> None:
        """Call the function with Delete."""
        self._call(context, "Delete", resource.properties, PhysicalResourceId=resource.physical_resource_id)

    def attribute(self, context: Context, resource: Resource, name: str) -> Any:  # noqa: ARG002 - as its base has it
        """Return what the function answered under this name."""
        node: Any = resource.attributes
        if name in resource.attributes:
            return resource.attributes[name]
        for part in name.split("."):
            if not isinstance(node, dict) or part not in node:
                raise ResourceError(f"CustomResource attribute error: {name} is not in the function's answer")
            node = node[part]
        return node

    def _call(self, context: Context, request: str, properties: dict[str, Any], **more: Any) -> dict[str, Any]:
        with _Mailbox() as mailbox:
            event = {
                "RequestType": request,
                "ServiceToken": properties["ServiceToken"],
                "ResponseURL": mailbox.url,
                "StackId": context.stack_id,
                "RequestId": str(uuid.uuid4()),
                "LogicalResourceId": context.logical_id,
                "ResourceType": self.type_name,
                "ResourceProperties": properties,
                **more,
            }
            token = properties["ServiceToken"]
            if ":lambda:" not in token:
                raise ResourceError(f"the emulator calls Lambda functions only, not {token}")
            reply = context.client("lambda").invoke(FunctionName=token, Payload=json.dumps(event).encode())
            payload = reply["Payload"].read().decode()
            answer = mailbox.answer
        if not answer:
            raise ResourceError(f"the custom resource's function did not answer its ResponseURL; it returned {payload}")
        if answer.get("Status") != "SUCCESS":
            raise ResourceError(
                f"Received response status [{answer.get('Status')}] from custom resource. "
                f"Message returned: {answer.get('Reason', payload)}"
            )
        return answer


def _as_text(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_text(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_text(item) for item in value]
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


PROVIDERS: dict[str, type[Provider]] = {
    "AWS::CloudFormation::CustomResource": CustomResource,
    "AWS::Lambda::Function": Function,
    "AWS::Lambda::LayerVersion": Layer,
    "AWS::Lambda::Permission": Permission,
    "AWS::StepFunctions::StateMachine": StateMachine,
}
