"""Who is told when an alarm rises: a topic with a key of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from training_storage._arguments import KEY, LISTED_TEXTS, misfits, optional
from training_storage._tokens import concrete
from training_storage.errors import Problem, ValidationError

_EMAIL: Final = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")


class AlarmTopic(Construct):
    """An encrypted topic that alarms of this account can tell, with subscriptions by mail.

    Alarms cannot tell a topic under the key ``alias/aws/sns``: its policy lets nobody but SNS's own callers use it, and
    cannot be changed. So the topic has a key of ours, which CloudWatch may use for alarms of this account. Publishing
    needs TLS. Topic and key hold nothing of worth and go with their stack. The key costs what a KMS key costs a month.

    Each address gets one mail with a link to confirm; nothing is sent to it before that.

    Example:
        ```python
        told = AlarmTopic(self, "Told", emails=["ops@example.com"])
        StorageAlarms(self, "Alarms", name="llama3-70b", file_system_id="fs-0123456789abcdef0", topics=[told.topic])
        ```

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        emails: Addresses that are told.
        key: Your own key, whose policy lets ``cloudwatch.amazonaws.com`` use it. One is made when left out.

    Raises:
        ValidationError: An argument is of another kind, or an address is none.

    Attributes:
        topic: The topic.
        key: Its key.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, emails: Sequence[str] = (), key: kms.IKey | None = None
    ) -> None:
        where = f"{scope.node.path}/{construct_id}".lstrip("/")
        problems = misfits({"emails": (emails, LISTED_TEXTS), "key": (key, optional(KEY))})
        if LISTED_TEXTS.fits(emails):
            problems += [
                Problem(what="not a mail address", path="emails", value=each, allowed="such as ops@example.com")
                for each in emails
                if (written := concrete(each)) is not None and not _EMAIL.fullmatch(written)
            ]
        if problems:
            raise ValidationError(problems, where=where)
        super().__init__(scope, construct_id)
        # Loading it takes time, and most stacks tell nobody.
        from aws_cdk import aws_sns as sns

        stack = cdk.Stack.of(self)
        own_alarms = {
            "StringEquals": {"aws:SourceAccount": stack.account},
            "ArnLike": {
                "aws:SourceArn": stack.format_arn(
                    service="cloudwatch",
                    resource="alarm",
                    resource_name="*",
                    arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
                )
            },
        }
        cloudwatch = iam.ServicePrincipal("cloudwatch.amazonaws.com")
        if key is None:
            made = kms.Key(
                self,
                "Key",
                description="Messages of alarms on training storage",
                enable_key_rotation=True,
                removal_policy=cdk.RemovalPolicy.DESTROY,
            )
            made.add_to_resource_policy(
                iam.PolicyStatement(
                    actions=["kms:Decrypt", "kms:GenerateDataKey*"],
                    principals=[cloudwatch],
                    resources=["*"],  # the key itself: a key policy knows no other resource
                    conditions=own_alarms,
                )
            )
            key = made
        self.key: Final = key
        self.topic: Final = sns.Topic(self, "Resource", master_key=key, enforce_ssl=True)
        self.topic.add_to_resource_policy(
            iam.PolicyStatement(
                sid="AlarmsOfThisAccount",
                actions=["sns:Publish"],
                principals=[cloudwatch],
                resources=[self.topic.topic_arn],
                conditions=own_alarms,
            )
        )
        for number, address in enumerate(emails, start=1):
            sns.Subscription(
                self,
                f"Mail{number}",
                topic=self.topic,
                protocol=sns.SubscriptionProtocol.EMAIL,
                endpoint=address,
            )
