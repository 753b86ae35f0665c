"""
Draft layers: the models, their loss, optimizer and score, and the files they are written to and read from.

Others may use all of it but `muon` and the kernels in `attention`. It imports no other package of the trainer.
"""
