"""
Configuration of `tlt up`, and the checks made before anything starts.

Other packages may use all of it.
"""
