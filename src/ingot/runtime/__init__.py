"""What happens while programs run: evaluation, memory, threads."""
