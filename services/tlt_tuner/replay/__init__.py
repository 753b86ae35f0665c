"""
A recorded trace played again, with another policy in charge.

`reading` reads the file, `world` says what a round of an arm would have brought, `play` lets a policy run through it,
and `verdict` compares it with what is best in hindsight.
"""
