"""The part of user data that is ours: settings as small files, and a few lines that fetch and start the scripts.

Everything long lives in ``node/bootstrap`` and reaches the node as one zip in S3, so that this part stays under 8 KB.
Values may be tokens; each stands in single quotes, or in a here-document that the shell does not expand.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from training_storage._tokens import literal_text

NODE: Final = Path(__file__).resolve().parents[1] / "node"
"""The folder that becomes the S3 asset: the scripts in ``bootstrap``, and the agent that they install."""

NOT_ON_NODES: Final = ("__pycache__", "/functions")
"""What of it stays behind, as git would ignore it: functions run in Lambda alone."""

_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+=,-]*")
_METADATA = "http://169.254.169.254/latest"
_CURL = "curl -sf -m 5 --retry 3"
# TS_ROOT is empty on a node; tests point it at a folder of their own.
_PLACES = 'TS_ETC="${TS_ROOT:-}/etc/training-storage"; TS_OPT="${TS_ROOT:-}/opt/training-storage"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """Which resource of which stack waits for the nodes.

    Attributes:
        stack_name: Name of the stack.
        logical_id: Logical id of the Auto Scaling group, or of an instance with a creation policy.
    """

    stack_name: str
    logical_id: str


def settings_lines(values: Mapping[str, str]) -> list[str]:
    """Return ``NAME='value'`` lines that a shell reads; empty values are left out."""
    return [f"{name}={shlex.quote(value)}" for name, value in values.items() if value]


def environment_lines(values: Mapping[str, str]) -> list[str]:
    """Return ``NAME=value`` lines that a shell, systemd and most languages read alike; quoted where they must be."""
    return [
        f"{name}={value}" if _PLAIN.fullmatch(literal_text(value)) else f'{name}="{value}"'
        for name, value in values.items()
    ]


def start_commands(
    *,
    settings: Mapping[str, str],
    mounts: Mapping[str, Mapping[str, str]],
    environment: Mapping[str, str],
    user_commands: Iterable[str],
    signal: Signal | None,
    agent: str = "",
    cloudwatch_agent: str = "",
) -> list[str]:
    """Return the shell commands that write the settings, fetch the scripts and start them.

    The last command ends the whole user data with an error where the node is not ready, so that nothing behind it runs
    on a node without its storage.

    Args:
        settings: Settings of the node; must hold ``TS_REGION``, ``TS_SCRIPTS_BUCKET`` and ``TS_SCRIPTS_KEY``.
        mounts: Settings of each mount by its name.
        environment: What ``/etc/training-storage/env`` says.
        user_commands: Shell lines that run, in a shell of their own, once the storage is proven.
        signal: Who waits for the result. None: nobody.
        agent: Settings of the agent, one line of JSON. Left out: there is none.
        cloudwatch_agent: Configuration of the CloudWatch agent, one line of JSON. Left out: nodes tell nothing.
    """
    signal_settings = {"TS_STACK_NAME": signal.stack_name, "TS_LOGICAL_ID": signal.logical_id} if signal else {}
    commands = ["umask 022", _PLACES, 'rm -rf "$TS_ETC/mounts.d" "$TS_ETC/"*.json']
    commands.append('mkdir -p "$TS_ETC/mounts.d" "$TS_OPT"')
    commands += _file('"$TS_ETC/settings"', settings_lines({**settings, **signal_settings}))
    for name, values in mounts.items():
        commands += _file(f'"$TS_ETC/mounts.d/{name}"', settings_lines(values))
    commands += _file('"$TS_ETC/env"', environment_lines(environment))
    if agent:
        commands += _file('"$TS_ETC/agent.json"', [agent])
    if cloudwatch_agent:
        commands += _file('"$TS_ETC/cloudwatch-agent.json"', [cloudwatch_agent])
    lines = list(user_commands)
    if lines:
        commands += _file('"$TS_OPT/user-commands.sh"', lines)
    commands += _file('"$TS_OPT/start.sh"', _fetch(signal))
    commands.append('bash "$TS_OPT/start.sh" || exit 1')
    return commands


def plain_commands(*, region: str, user_commands: Iterable[str], signal: Signal | None) -> list[str]:
    """Return the commands of a node without storage of ours: the user's commands, then the signal."""
    lines = list(user_commands)
    commands: list[str] = ["TS_RESULT=SUCCESS"]
    if lines:
        commands += ["umask 022", _PLACES, 'mkdir -p "$TS_OPT"', *_file('"$TS_OPT/user-commands.sh"', lines)]
        commands.append('bash -e -o pipefail "$TS_OPT/user-commands.sh" || TS_RESULT=FAILURE')
    if signal is not None:
        commands += settings_lines(
            {"TS_REGION": region, "TS_STACK_NAME": signal.stack_name, "TS_LOGICAL_ID": signal.logical_id}
        )
        commands += _signal('"$TS_RESULT"')
    commands.append('[ "$TS_RESULT" = SUCCESS ] || exit 1')
    return commands


def _file(path: str, lines: list[str]) -> list[str]:
    """Write lines to a file; the end mark is one that is none of them."""
    mark, number = "TS_END", 1
    present = {line for text in lines for line in text.splitlines()}
    while mark in present:
        number += 1
        mark = f"TS_END_{number}"
    return [f"cat >{path} <<'{mark}'", *lines, mark]


def _fetch(signal: Signal | None) -> list[str]:
    lines = [
        "#!/bin/bash",
        _PLACES,
        '. "$TS_ETC/settings"',
        "# Deep Learning images and Amazon Linux have the AWS CLI; other Ubuntu images can get it as a snap.",
        "if ! command -v aws >/dev/null; then",
        "  snap install aws-cli --classic || true",
        '  PATH="$PATH:/snap/bin"',
        "fi",
        "# A role made in the same stack needs some seconds until S3 knows it, hence the tries.",
        "for try in 1 2 3 4 5 6; do",
        '  if aws s3 cp --only-show-errors --region "$TS_REGION" "s3://$TS_SCRIPTS_BUCKET/$TS_SCRIPTS_KEY" \\',
        '    "$TS_OPT/scripts.zip" && rm -rf "$TS_OPT/node" &&',
        '    python3 -m zipfile -e "$TS_OPT/scripts.zip" "$TS_OPT/node"; then',
        '    exec bash "$TS_OPT/node/bootstrap/bootstrap.sh"',
        "  fi",
        '  sleep "$((try * ${TS_RETRY_DELAY:-5}))"',
        "done",
        'echo "training-storage: cannot fetch s3://$TS_SCRIPTS_BUCKET/$TS_SCRIPTS_KEY" >&2',
    ]
    return [*lines, *(_signal("FAILURE") if signal is not None else []), "exit 1"]


def _signal(status: str) -> list[str]:
    return [
        f"TS_TOKEN=$({_CURL} -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' {_METADATA}/api/token)",
        f'TS_ID=$({_CURL} -H "X-aws-ec2-metadata-token: $TS_TOKEN" {_METADATA}/meta-data/instance-id)',
        'aws cloudformation signal-resource --region "$TS_REGION" --stack-name "$TS_STACK_NAME" \\',
        f'  --logical-resource-id "$TS_LOGICAL_ID" --unique-id "$TS_ID" --status {status} \\',
        '  || echo "training-storage: no stack waits for this node" >&2',
    ]
