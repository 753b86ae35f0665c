"""
Offline part of `tlt drafter`: training from collected rollouts, import and export of drafters, without a running suite.

Other packages may use `training` and `states`; `cli` uses the rest.
"""
