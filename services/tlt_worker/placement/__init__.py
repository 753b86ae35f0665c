"""Placement of workers: Ray Serve, the local machine, KubeRay pods, CPU cores."""
