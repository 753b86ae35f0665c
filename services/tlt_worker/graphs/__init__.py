"""
Which CUDA graphs an engine captures for its arms, what they take, and what rounds without a graph take. Pure.

`plan.plan_graphs` decides, `cost.Costs` counts bytes, `value.worth` says what goes first under a budget, and
`workspace.Workspace` says which arm fits at which batch size. `engine.arms` captures what the plan says.
"""
