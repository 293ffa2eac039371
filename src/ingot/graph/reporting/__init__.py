"""Building blocks of reports to users: source lines and tables."""
