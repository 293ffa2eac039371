"""Calls of compiled functions, and the implicit compilation of uncompiled graphs."""
