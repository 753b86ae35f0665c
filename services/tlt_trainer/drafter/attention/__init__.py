"""
Attention over packs of windows, by the kernels that the device has.

`loss` uses `packed`, packs are laid out by `layout`; nothing else is for others.
"""
