"""
Captured states on their way to the draft layer: taken from the cache, pooled, held out, packed.

Others may use `frame`, `frame_pool`, `frame_source`, `feed`, `held_out` and `pack`.
"""
