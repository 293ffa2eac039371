"""Communication between processes: MPI on NumPy arrays, below the ops that use it."""
