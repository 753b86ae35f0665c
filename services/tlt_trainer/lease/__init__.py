"""Holding the device only while a lease lasts: pieces, turns and times."""
