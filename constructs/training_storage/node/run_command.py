"""Commands on nodes through Systems Manager: who can be asked, asking, and reading what they answer.

The agent writes its answer into the lake (``places.ANSWERS``), because Systems Manager keeps 24,000 characters of
output, no progress, and forgets both after 30 days. Its status only says what became of a node that answers nothing.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from . import places
from .aws import MISSING, Aws, code_of

AGENT = '"${TS_ROOT:-}/opt/training-storage/bin/agent"'
"""The agent as a shell word; ``TS_ROOT`` is empty on a node."""

WORKLOAD_TAG = "training-storage:workload"
ROLE_TAG = "training-storage:role"
STORAGE_NODE = "storage-node"

MOST_INSTANCES = 50
"""Instance ids that SendCommand takes in one call (Systems Manager API reference)."""

DELIVERY_S = 600
"""How long a node may take to fetch a command; one that is online does it within seconds."""

LONGEST_S = 172_800
"""Longest run that AWS-RunShellScript allows: 48 hours."""

NOT_THERE_YET = frozenset({126, 127})
"""Exit codes of a shell that finds no agent: the node has not finished booting, or never had one."""

_UNDER_WAY = frozenset({"", "Pending", "InProgress", "Delayed", "Cancelling"})
_ALIVE = frozenset({"pending", "running"})
_COMMAND_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_PASSING = frozenset(
    {
        "Throttling", "ThrottlingException", "ThrottledException", "RequestLimitExceeded", "TooManyRequestsException",
        "SlowDown", "RequestTimeout", "RequestTimeoutException", "InternalError", "InternalServerError",
        "InternalFailure", "ServiceUnavailable", "Unavailable", "503", "500",
    }
)  # fmt: skip

_NO_CONNECTION = frozenset({"HTTPClientError", "ConnectionError"})


@dataclass(frozen=True)
class NodeAnswer:
    """What one node has to say about one command, as of one look.

    Attributes:
        instance_id: ``i-...``.
        state: ``running``; ``done``; ``refused`` (nothing was changed, ``message`` says why); ``failed``; ``lost``: it
            will never answer, ``message`` says what became of it.
        exit_code: Exit code of the agent; None while it runs and where it is not known.
        answer: What the command returned, also where a part of it failed; None while it runs, or where it has nothing.
        progress: The last progress that it published; None before the first.
        message: What is wrong, in words; empty where nothing is.
    """

    instance_id: str
    state: str
    exit_code: int | None
    answer: dict[str, Any] | None
    progress: dict[str, Any] | None
    message: str

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        return self.state != "running"

    @property
    def not_ready(self) -> bool:
        """Whether the node has no agent, or no settings of it: still booting, or too old for the command."""
        return self.state == "failed" and (self.exit_code in NOT_THERE_YET or "the agent's settings" in self.message)


def passing(error: BaseException) -> bool:
    """Return whether an error of a call may be gone at the next look: throttling, a time-out, a server of AWS."""
    if code_of(error) in _PASSING:
        return True
    response = getattr(error, "response", None)  # connection errors have one too, which is None
    if isinstance(response, dict) and int(response.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0) >= 500:
        return True
    return any(each.__name__ in _NO_CONNECTION for each in type(error).__mro__)


def online_nodes(aws: Aws, workload: str) -> tuple[str, ...]:
    """Return instances of a workload that take commands: those of the fleet, then the storage node.

    Args:
        aws: Clients of ``ec2`` and ``ssm``.
        workload: The workload's name.

    Raises:
        botocore.exceptions.ClientError: A call was refused.
    """
    roles = running_nodes(aws, workload)
    online = _online(aws, sorted(roles))
    return tuple(sorted(online, key=lambda each: (roles[each] == STORAGE_NODE, each)))


def running_nodes(aws: Aws, workload: str, *, starting: bool = False) -> dict[str, str]:
    """Return the role of each running instance of a workload: ``storage-node``, or empty for one of the fleet.

    Whether it takes commands is another question: see ``online_nodes``.

    Args:
        aws: Clients of ``ec2``.
        workload: The workload's name.
        starting: Whether those that start now count too.
    """
    found: dict[str, str] = {}
    filters = [
        {"Name": f"tag:{WORKLOAD_TAG}", "Values": [workload]},
        {"Name": "instance-state-name", "Values": ["pending", "running"] if starting else ["running"]},
    ]
    for page in _pages(aws("ec2").describe_instances, Filters=filters):
        for reservation in page.get("Reservations", ()):
            for each in reservation.get("Instances", ()):
                tags = {tag["Key"]: tag["Value"] for tag in each.get("Tags", ())}
                found[each["InstanceId"]] = tags.get(ROLE_TAG, "")
    return found


def _online(aws: Aws, instance_ids: Sequence[str]) -> list[str]:
    found = []
    for some in _chunks(instance_ids):
        filters = [{"Key": "InstanceIds", "Values": list(some)}]
        for page in _pages(aws("ssm").describe_instance_information, Filters=filters):
            for each in page.get("InstanceInformationList", ()):
                if each.get("PingStatus") == "Online":
                    found.append(each["InstanceId"])  # noqa: PERF401 - three levels in one expression read worse
    return found


def command_line(argv: Sequence[str], command_id: str) -> str:
    """Return the shell line that runs the agent on a node.

    Args:
        argv: Subcommand and arguments, unquoted.
        command_id: Where the answer goes.

    Raises:
        ValueError: The id is none that the agent takes.
    """
    if not _COMMAND_ID.fullmatch(command_id):
        raise ValueError(f"command_id is {command_id!r}; allowed: 1 to 128 letters, digits, dots, dashes, underscores")
    return " ".join([AGENT, *(shlex.quote(each) for each in (*argv, "--command-id", command_id))])


def send(aws: Aws, instance_ids: Sequence[str], argv: Sequence[str], *, command_id: str, timeout_s: float) -> str:
    """Run the agent on nodes, and return at once.

    Args:
        aws: Clients.
        instance_ids: The nodes. More than 50 are asked in several calls.
        argv: Subcommand and arguments: ``["survey", "--full"]``. The command's id is added.
        command_id: Id that no earlier command had: an answer that lies there already would be taken for this one's.
            Sending twice with one id, after a time-out, runs the command twice, and the later answer stands.
        timeout_s: Seconds after which Systems Manager ends the command, at most 48 hours.

    Returns:
        The Systems Manager command id; several, with commas between them, for more than 50 nodes.

    Raises:
        ValueError: There is no node, or the id is none.
        botocore.exceptions.ClientError: A call was refused.
    """
    if not instance_ids:
        raise ValueError("instance_ids is empty; allowed: one node or more")
    line = command_line(argv, command_id)
    made = []
    for some in _chunks(instance_ids):
        answer = aws("ssm").send_command(
            InstanceIds=list(some),
            DocumentName="AWS-RunShellScript",
            Parameters={
                "commands": [line],
                "executionTimeout": [str(int(min(max(timeout_s, 1), LONGEST_S)))],
            },
            TimeoutSeconds=DELIVERY_S,
            Comment=_comment(command_id),
        )
        made.append(answer["Command"]["CommandId"])
    return ",".join(made)


def sent_as(aws: Aws, command_id: str, since: float, instance_ids: Sequence[str]) -> str:
    """Return what ``send`` returned for a command, or would have if its answer had not been lost; empty if unknown.

    Where only some of the nodes were sent it, because the sender died between two requests, it is empty too.

    Args:
        aws: Clients.
        command_id: As it was given to ``send``.
        since: Seconds since 1970, no later than the sending.
        instance_ids: The nodes.
    """
    moment = datetime.fromtimestamp(since - 60, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    filters = [{"key": "InvokedAfter", "value": moment}, {"key": "DocumentName", "value": "AWS-RunShellScript"}]
    found = []
    silent = set(instance_ids)
    try:
        for page in _pages(aws("ssm").list_commands, Filters=filters):
            mine = [each for each in page["Commands"] if each.get("Comment") == _comment(command_id)]
            found += [each["CommandId"] for each in mine]
            silent.difference_update(*(each.get("InstanceIds", ()) for each in mine))
    except Exception as error:
        # Whoever may not list commands sends again: it runs twice and does nothing twice.
        if passing(error) or code_of(error).startswith("AccessDenied"):
            return ""
        raise
    return "" if silent else ",".join(sorted(found))


def _comment(command_id: str) -> str:
    return f"training-storage {command_id}"[:100]


def poll(
    aws: Aws, lake_bucket: str, command_id: str, ssm_command_id: str, instance_ids: Sequence[str]
) -> tuple[NodeAnswer, ...]:
    """Look once at what the nodes of a command have to say.

    A call that is throttled or times out only means no news: its nodes count as running until a look succeeds.

    Args:
        aws: Clients.
        lake_bucket: The data lake.
        command_id: As it was given to ``send``.
        ssm_command_id: As ``send`` returned it; empty where it was lost on the way: then the lake alone is read.
        instance_ids: The nodes.

    Returns:
        One answer a node, in their order.

    Raises:
        botocore.exceptions.ClientError: A call was refused for good.
    """
    answers: dict[str, NodeAnswer] = {}
    # The status first: a command that has ended had written its answer before.
    statuses = _statuses(aws, ssm_command_id)
    silent = []
    for each in instance_ids:
        whole, read = _object(aws, lake_bucket, f"{places.ANSWERS}{command_id}/{each}.json")
        if isinstance(whole, dict):
            answers[each] = _of_answer(each, whole)
        elif not read or statuses is None:
            answers[each] = NodeAnswer(each, "running", None, None, None, "")
        else:
            silent.append(each)
    waiting = [each for each in silent if (statuses or {}).get(each, "") in _UNDER_WAY]
    gone = _gone(aws, waiting)
    for each in silent:
        status = (statuses or {}).get(each, "")
        if each in gone:
            text = f"instance {each} is gone ({gone[each]}) and left no answer; what it had done stays done"
            answers[each] = NodeAnswer(each, "lost", None, None, None, text)
        elif each in waiting:
            progress, _ = _object(aws, lake_bucket, f"{places.ANSWERS}{command_id}/{each}.progress.json")
            known = progress if isinstance(progress, dict) else None
            answers[each] = NodeAnswer(each, "running", None, None, known, "")
        else:
            answers[each] = _of_status(aws, each, status, ssm_command_id)
    return tuple(answers[each] for each in instance_ids)


def _of_answer(instance_id: str, whole: dict[str, Any]) -> NodeAnswer:
    state, code, answer = whole.get("state"), whole.get("exit_code"), whole.get("answer")
    return NodeAnswer(
        instance_id=instance_id,
        state=state if state in ("done", "refused", "failed") else "failed",
        exit_code=code if isinstance(code, int) else None,
        answer=answer if isinstance(answer, dict) else None,
        progress=None,
        message=str(whole.get("message") or ""),
    )


def _of_status(aws: Aws, instance_id: str, status: str, ssm_command_id: str) -> NodeAnswer:
    """Tell what became of a command that has ended without an answer in the lake."""
    code, told = _output(aws, instance_id, ssm_command_id)
    if code in NOT_THERE_YET:
        text = f"instance {instance_id} has no agent: it is still booting, or was started by an older deployment"
        return NodeAnswer(instance_id, "failed", code, None, None, f"{text} ({told})" if told else text)
    if status == "Failed" and code is not None and code >= 0:
        text = told.removeprefix("error: ")
        return NodeAnswer(
            instance_id, "failed", code, None, None, text or f"the agent on {instance_id} ended with exit code {code}"
        )
    words = {
        "Success": "the command ended and left no answer in the data lake",
        "TimedOut": "it did not fetch the command or did not finish it in time",
        "Cancelled": "the command was cancelled",
        "Undeliverable": "it could not be reached",
        "Terminated": "the command was ended because too many other nodes had failed",
    }
    text = f"instance {instance_id}: {words.get(status, f'Systems Manager says {status}')}"
    return NodeAnswer(instance_id, "lost", None, None, None, f"{text} ({told})" if told else text)


def _statuses(aws: Aws, ssm_command_id: str) -> dict[str, str] | None:
    """Return the status of each node that Systems Manager knows of; None where a look failed."""
    found: dict[str, str] = {}
    try:
        for one in filter(None, ssm_command_id.split(",")):
            for page in _pages(aws("ssm").list_command_invocations, CommandId=one):
                for each in page.get("CommandInvocations", ()):
                    found[each["InstanceId"]] = str(each.get("Status", ""))
    except Exception as error:
        if not passing(error):
            raise
        return None
    return found


def _output(aws: Aws, instance_id: str, ssm_command_id: str) -> tuple[int | None, str]:
    """Return exit code and the last line that the command printed to its error output."""
    for one in filter(None, ssm_command_id.split(",")):
        try:
            found = aws("ssm").get_command_invocation(CommandId=one, InstanceId=instance_id)
        except Exception as error:
            if code_of(error) == "InvocationDoesNotExist" or passing(error):
                continue
            raise
        lines = str(found.get("StandardErrorContent") or "").strip().splitlines()
        code = found.get("ResponseCode")
        # The document adds its own line, "failed to run commands: exit status 1", to what the command printed.
        told = [each for each in lines if each.strip() and not each.startswith("failed to run commands")]
        return (code if isinstance(code, int) else None), (told[-1].strip() if told else "")
    return None, ""


def _gone(aws: Aws, instance_ids: Sequence[str]) -> dict[str, str]:
    """Return instances that can never answer, with their state; those that EC2 no longer lists among them."""
    found: dict[str, str] = {}
    for some in _chunks(instance_ids):
        try:
            states = _states(aws, some)
        except Exception as error:
            if code_of(error).startswith("InvalidInstanceID"):  # one that is not listed fails the call for all
                if len(some) == 1:
                    found[some[0]] = "terminated"
                else:
                    for each in some:
                        found.update(_gone(aws, [each]))
                continue
            if not passing(error):
                raise
            continue
        for each in some:
            if states.get(each, "terminated") not in _ALIVE:
                found[each] = states.get(each, "terminated")
    return found


def _states(aws: Aws, instance_ids: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for page in _pages(aws("ec2").describe_instances, InstanceIds=list(instance_ids)):
        for reservation in page.get("Reservations", ()):
            found.update({each["InstanceId"]: each["State"]["Name"] for each in reservation.get("Instances", ())})
    return found


def _object(aws: Aws, bucket: str, key: str) -> tuple[Any, bool]:
    """Return what JSON an object holds (None for nothing), and whether the look succeeded."""
    try:
        body = aws("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    except Exception as error:
        if code_of(error) in MISSING:
            return None, True
        if passing(error):
            return None, False
        raise
    try:
        return json.loads(body), True
    except ValueError:
        return None, False


def _pages(call: Any, **given: Any) -> Iterable[dict[str, Any]]:
    while True:
        page = call(**given)
        yield page
        token = page.get("NextToken")
        if not token:
            return
        given["NextToken"] = token


def _chunks(instance_ids: Sequence[str]) -> list[Sequence[str]]:
    return [instance_ids[at : at + MOST_INSTANCES] for at in range(0, len(instance_ids), MOST_INSTANCES)]
