"""Grafana dashboards of the suite as typed code; `make dashboards` writes them to deploy/helm/tlt/dashboards."""
