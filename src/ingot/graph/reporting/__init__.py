"""What reports to users consist of: lines of their programs, and tables."""
