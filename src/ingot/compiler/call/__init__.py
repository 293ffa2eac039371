"""Calls of compiled functions, and graphs that are compiled without being asked to be."""
