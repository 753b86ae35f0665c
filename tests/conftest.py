import asyncio

from hypothesis import settings

# No deadline: the machine may be busy. pytest-timeout ends tests that hang.
settings.register_profile("house", deadline=None)
settings.load_profile("house")

# pytest-asyncio gets the current event loop before it creates a test's own. If none was ever set, asyncio creates one
# that is never closed.
asyncio.set_event_loop(None)
