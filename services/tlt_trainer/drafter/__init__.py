"""
Draft layers: the models, their loss, optimizer and score, and the files they are written to and read from.

Other packages may use all of it except `muon` and the kernels in `attention`. It imports no other package of the
trainer.
"""
