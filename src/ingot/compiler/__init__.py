"""The compiler: from a function to native code, in the order of `pipeline.py`."""
