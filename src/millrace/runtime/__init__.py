"""What runs inside a task. No Spark, no driver."""
