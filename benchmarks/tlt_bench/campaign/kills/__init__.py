"""Kills, stops and terminates every kind of process of a suite under load, and cuts its clients' connections."""
