"""
`tlt drafter`: training from recorded rollouts, import and export of drafters, without a suite.

Others may use `training`, `rollouts` and `states`; `cli` uses the rest.
"""
