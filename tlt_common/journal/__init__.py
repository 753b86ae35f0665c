"""
What gateways and coordinators write down for simulations of their run: lengths, times and states, no tokens or texts.

`format` names the lines, `gateway_lines` and `coordinator_lines` say what they hold, `writer` writes them beside the
event loop, `reader` reads and checks them, `contents` sums them up.
"""
