"""The spot trainer of one worker: trains the draft layer while its worker holds a lease."""
