"""Pools what all engines learn about which speculation pays. Decisions are made in the engines."""
