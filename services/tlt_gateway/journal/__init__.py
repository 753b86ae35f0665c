"""
Records a gateway's run for simulations (`tlt_common.journal`).

`journal` records events, `tally` sums the rounds of each minute, `groups` names prompts. Others use `GatewayJournal`.
"""
