"""What the driver decides about epochs and jobs. No Spark."""
