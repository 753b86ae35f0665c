"""
Plans which CUDA graphs an engine captures for its arms, their memory, and that of rounds without a graph. Pure.

`plan.plan_graphs` decides, `cost.Costs` counts bytes, `value.worth` ranks graphs under a budget, and
`workspace.Workspace` determines at which batch sizes an arm fits. The scheduler captures what the plan contains.
"""
