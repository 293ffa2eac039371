"""Products of matrices, contractions and convolutions."""
