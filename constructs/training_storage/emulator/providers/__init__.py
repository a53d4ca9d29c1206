"""Which provider makes which resource type: an own one, moto's model, or the registry schema; otherwise nothing."""

from __future__ import annotations

from functools import lru_cache

from training_storage.emulator import schemas
from training_storage.emulator.providers import (
    autoscaling,
    compute,
    directory_buckets,
    fsx,
    functions,
    identity,
    network,
    observability,
    s3_files,
    schedules,
    stacks,
    storage,
)
from training_storage.emulator.providers.base import Provider
from training_storage.emulator.providers.generic import GenericProvider
from training_storage.emulator.providers.moto_model import MotoModelProvider, model_of

_OWN: dict[str, type[Provider]] = {
    **autoscaling.PROVIDERS,
    **compute.PROVIDERS,
    **directory_buckets.PROVIDERS,
    **fsx.PROVIDERS,
    **functions.PROVIDERS,
    **identity.PROVIDERS,
    **network.PROVIDERS,
    **observability.PROVIDERS,
    **s3_files.PROVIDERS,
    **schedules.PROVIDERS,
    **stacks.PROVIDERS,
    **storage.PROVIDERS,
}


@lru_cache
def provider_for(type_name: str, region: str) -> Provider | None:
    """Return the provider of a type in a region, or None: the type is unknown, and its stack must not deploy."""
    if type_name.startswith("Custom::"):
        return functions.CustomResource(type_name, region)
    if schemas.load(type_name, region) is None:
        return None
    if type_name in _OWN:
        return _OWN[type_name](type_name, region)
    if model_of(type_name) is not None:
        return MotoModelProvider(type_name, region)
    return GenericProvider(type_name, region)
