"""`tlt bench rollout --async`: TRL's asynchronous trainer on suites that differ in one thing, in turns."""
