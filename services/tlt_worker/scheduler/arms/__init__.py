"""Arms inside the engine: their state, the choice per round, the trace of rounds."""
