"""Decompositions of matrices and linear systems, by LAPACK."""
