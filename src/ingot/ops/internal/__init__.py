"""Ops and evaluations that others are made of; users call none of them."""
