"""Keeps a failure inside SGLang's scheduler to the requests it concerns."""
