"""CDK constructs, what people look at and who is told: the dashboard, the alarms and their topic."""

from training_storage.monitoring.alarms import StorageAlarms
from training_storage.monitoring.dashboard import StorageDashboard
from training_storage.monitoring.metrics import cloudwatch_metric
from training_storage.monitoring.subject import Expected
from training_storage.monitoring.topic import AlarmTopic

__all__ = ["AlarmTopic", "Expected", "StorageAlarms", "StorageDashboard", "cloudwatch_metric"]
