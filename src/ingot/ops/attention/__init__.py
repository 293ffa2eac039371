"""Attention, and the other functions of `mx.fast`."""
