"""The module that PyFlink programs name in full; the same classes as in ``millrace.metrics``."""

from millrace.common.metrics import Counter, Distribution, Meter, Metric, MetricGroup

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]
