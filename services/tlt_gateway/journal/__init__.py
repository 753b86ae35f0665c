"""
What a gateway writes down for simulations of its run (`tlt_common.journal`).

`journal` is told what happens, `tally` adds up the rounds of a minute, `groups` names prompts. Others use
`GatewayJournal`.
"""
