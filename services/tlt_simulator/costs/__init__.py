"""What rounds, drafts, learning and switches cost, and where each number comes from."""
