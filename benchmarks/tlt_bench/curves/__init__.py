"""Whether reinforcement learning progresses the same with speculation and lending as without."""
