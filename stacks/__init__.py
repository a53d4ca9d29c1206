"""The reference app: five stacks, cut by how long their contents live."""

from stacks.build import TrainingStacks, build_stacks

__all__ = ["TrainingStacks", "build_stacks"]
