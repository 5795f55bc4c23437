"""Runs one subtask through one epoch again, in this process, from what a job has left in its directory.

    archive: which epochs there are  →  fitting: program + record = EpochInput  →  running: up to the wanted subtask

A replay reads the job's directory and never writes to it; sinks are taken out of the program.
"""
