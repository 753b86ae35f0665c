"""Limits a failure inside SGLang's scheduler to the requests that it concerns."""
