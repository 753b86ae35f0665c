"""
Attention over packs of windows, with the kernels that the device supports.

`loss` uses `packed`, and packs use `layout`; everything else is internal.
"""
