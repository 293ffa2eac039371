"""Communication between processes: collectives and messages as lazy ops."""
