"""`tlt drafter collect`: the policy's own responses to a file of prompts, for `tlt drafter train`."""
