from hypothesis import settings

# No test fails for being slow: the machine may be busy with other things. pytest-timeout ends those that hang.
settings.register_profile("house", deadline=None)
settings.load_profile("house")
