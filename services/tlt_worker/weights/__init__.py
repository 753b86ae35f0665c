"""
Weights of the policy: fetched or received, staged, served.

`Worker` assembles `ServedWeights`, `Staging` and `DeltaFolding`.
"""
