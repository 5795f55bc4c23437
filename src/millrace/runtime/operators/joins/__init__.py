"""Joins of two inputs, and of a stream with a table."""
