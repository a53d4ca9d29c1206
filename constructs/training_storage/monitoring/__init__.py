"""CDK constructs, what people look at: the dashboard."""

from training_storage.monitoring.dashboard import StorageDashboard

__all__ = ["StorageDashboard"]
