"""The only room that imports pyspark: the session, the epoch loop, stages, sources and sinks."""
