"""
Random input for everything that reads input: calls, bytes on the socket, configuration, files.

Inputs are drawn by Hypothesis, which also reduces an
input that does harm to a small one.
"""
