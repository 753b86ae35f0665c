"""
Weights of the policy: fetching, receiving, staging and serving them.

`Worker` assembles `ServedWeights` and `Staging`.
"""
