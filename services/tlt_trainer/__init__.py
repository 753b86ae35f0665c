"""
The spot trainer of one worker: trains the draft layer while its worker holds a lease.

`main` starts it, `cli` is `tlt drafter`; others may use its packages as each of them says, and `config`.
"""
