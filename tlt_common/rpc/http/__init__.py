"""HTTP servers inside services: bounded connections, errors as JSON, calls counted."""
