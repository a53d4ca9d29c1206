"""Names that must be known before the resource is made, and must not meet an older one that was kept.

CloudFormation's own generated names cannot be used where a policy must name the resource without referring to it (a key
policy naming the bucket that the key encrypts), or where a service wants a prefix (``/aws/fsx``). A fixed name would
collide with the resource that an earlier stack of the same name left behind, because data is retained. The id of the
stack is new each time a stack is made and never changes afterwards.
"""

from __future__ import annotations

import re

from aws_cdk import Aws, Fn, Stack, Token
from constructs import Construct

_UUID_LENGTH = 36
_ADDRESS_LENGTH = 8
_SHORTEST_HEAD = 4  # fewer letters of a stack's name say nothing


def unique_name(owner: Construct, *, length: int) -> str:
    """Return ``STACK-ADDRESS-UUID`` in lower-case letters, digits and hyphens; ``ADDRESS-UUID`` in a short name.

    Args:
        owner: The construct that the named resource belongs to; its address in the tree tells two of one stack apart.
        length: Longest name that the service takes; the stack's name is cut to fit, then the address.

    Returns:
        A token: the last part is the UUID of the stack, known when it is deployed. Only good inside that stack.
    """
    stack_name = Stack.of(owner).stack_name
    words = "" if Token.is_unresolved(stack_name) else re.sub(r"[^a-z0-9]+", "-", stack_name.lower())
    room = length - _UUID_LENGTH - _ADDRESS_LENGTH - 2
    head = f"{words[:room].strip('-') or 'storage'[:room]}-" if room >= _SHORTEST_HEAD else ""
    address = owner.node.addr[-min(_ADDRESS_LENGTH, length - _UUID_LENGTH - 1) :]
    return Fn.join("-", [f"{head}{address}", Fn.select(2, Fn.split("/", Aws.STACK_ID))])
