"""Instances as nodes: each one that starts gets a root folder, the mount of its file system, and Systems Manager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from moto.ec2.models import EC2Backend
from moto.ec2.models.instances import Instance, InstanceBackend

from training_storage.emulator import world
from training_storage.emulator._moto import Patches
from training_storage.emulator.node import EmulatedNode

_WORKLOAD = "training-storage:workload"

# Kept by backend: a new emulator has new backends
_nodes: WeakKeyDictionary[EC2Backend, dict[str, EmulatedNode]] = WeakKeyDictionary()
_callbacks: dict[str, list[Callable[[EmulatedNode], None]]] = {}


def callbacks() -> list[Callable[[EmulatedNode], None]]:
    """Return what is called for each instance that starts in the emulator that runs."""
    return _callbacks.setdefault(str(world.current().folder), [])


def nodes(backend: EC2Backend) -> dict[str, EmulatedNode]:
    """Return the nodes of a backend by instance id, those of running instances made where they are lacking."""
    known = _nodes.setdefault(backend, {})
    for reservation in list(backend.reservations.values()):
        for instance in reservation.instances:
            if instance.id not in known and str(instance.state) == "running":
                known[instance.id] = _node(backend, instance)
    return known


def _node(backend: EC2Backend, instance: Instance) -> EmulatedNode:
    node = EmulatedNode(instance, backend.account_id, backend.region_name)
    file_system = _mounted(backend, node)
    if file_system is not None:
        node.mount(file_system)
    return node


def _mounted(backend: EC2Backend, node: EmulatedNode) -> str | None:
    """Return the file system of the node's workload, by their tags; without tags, the only one that there is."""
    from moto.fsx.models import fsx_backends

    fsx = fsx_backends[backend.account_id][backend.region_name]
    tags = {
        key: {tag["Key"]: tag["Value"] for tag in fsx.tagger.list_tags_for_resource(item.resource_arn)["Tags"]}
        for key, item in fsx.file_systems.items()
    }
    mine = [key for key, found in tags.items() if _WORKLOAD in found and found[_WORKLOAD] == node.tags.get(_WORKLOAD)]
    if mine:
        return mine[-1]
    return next(iter(tags)) if len(tags) == 1 else None


def mount_missing(backend: EC2Backend, node: EmulatedNode) -> None:
    """Mount the file system of a node that had none when it started."""
    if not (node.root / "fsx").is_dir():
        file_system = _mounted(backend, node)
        if file_system is not None:
            node.mount(file_system)


def busy() -> bool:
    """Say whether anything runs on a node."""
    return any(node.busy for known in list(_nodes.values()) for node in list(known.values()))


def end_all() -> None:
    """Kill what runs on the nodes of the emulator that ends."""
    base = world.current().folder
    for known in list(_nodes.values()):
        for node in known.values():
            if base in node.root.parents:
                node.kill()
    _callbacks.pop(str(base), None)


def install(patches: Patches) -> None:
    """Make a node of each instance that starts, and end what runs on one that stops."""
    original = InstanceBackend.run_instances

    def run_instances(self: Any, *given: Any, **more: Any) -> Any:
        reservation = original(self, *given, **more)
        known = _nodes.setdefault(self, {})
        for instance in reservation.instances:
            known[instance.id] = _node(self, instance)
            for callback in callbacks():
                callback(known[instance.id])
        return reservation

    patches.set(InstanceBackend, "run_instances", run_instances)
    if end_all not in world.at_end:
        world.at_end.append(end_all)
    for name in ("terminate", "stop"):
        patches.set(Instance, name, _ending(getattr(Instance, name)))


def _ending(original: Callable[..., Any]) -> Callable[..., Any]:
    def end(self: Any, *given: Any, **more: Any) -> Any:
        done = original(self, *given, **more)
        node = _nodes.get(self.ec2_backend, {}).get(self.id)
        if node is not None:
            node.kill()
        return done

    return end
