"""`make release`: builds what is published for a version, and checks it. The version is that of pyproject.toml."""
