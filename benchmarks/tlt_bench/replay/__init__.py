"""
Replays a recorded trace under another policy.

`reading` reads the file, `world` estimates what a round of another arm would have produced, `play` runs a policy
through the trace, and `verdict` compares it with the best choices in hindsight.
"""
