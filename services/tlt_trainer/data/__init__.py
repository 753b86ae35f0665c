"""
Captured states on their way to the draft layer: fetched from the cache, pooled, held out and packed.

Others may use `frame`, `frame_pool`, `frame_source`, `feed`, `held_out` and `pack`.
"""
