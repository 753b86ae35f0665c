"""
`tlt bench campaign`: kill, stop, starve and feed garbage to a running suite, and check that no response is lost or
changed.

Each subpackage with a module `part`, which defines `PART`, is one part of the campaign. Nothing lists them.
"""
