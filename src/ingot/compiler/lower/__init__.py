"""Lowering: fused groups become loop nests."""
