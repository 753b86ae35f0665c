"""
`tlt drafter`: training from recorded rollouts, import and export of drafters, without a suite.

Others may use `training` and `states`; `cli` uses the rest.
"""
