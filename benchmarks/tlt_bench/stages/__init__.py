"""What the stages of a decoding round cost the scheduler's thread."""
