"""The operators: one file for each concept."""
