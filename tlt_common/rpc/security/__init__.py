"""Who may call, and how both sides prove who they are: tokens, scopes, certificates."""
