"""The `millrace` command: one module for each verb."""
