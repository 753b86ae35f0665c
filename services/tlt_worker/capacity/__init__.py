"""
Plans the CUDA graphs that an engine captures for its arms, their memory, and the memory of rounds without graphs. Pure.

`plan.plan_graphs` decides, `cost.Costs` counts bytes, `value.worth` ranks graphs under a budget, and
`workspace.Workspace` determines at which batch sizes an arm fits. The scheduler captures what the plan contains.
"""
