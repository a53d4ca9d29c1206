"""The guard in front of a file system."""
