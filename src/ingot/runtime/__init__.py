"""Process-wide services at run time: evaluation, memory, threads, settings."""
