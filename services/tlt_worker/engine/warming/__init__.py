"""Use what is compiled at first use before a worker reports ready: what that is, and requests that reach it."""
