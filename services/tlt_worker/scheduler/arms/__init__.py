"""Arms inside the engine: their states, the choice per round, and the trace of rounds."""
