"""Sources of drafts, and completion of the drafter's cache after rounds without it."""
