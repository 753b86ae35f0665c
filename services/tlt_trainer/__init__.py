"""
The spot trainer of one worker: trains the draft layer while its worker holds a lease.

`main` starts it and `cli` is `tlt drafter`. Other packages may use `config`, and the subpackages as documented in each.
"""
