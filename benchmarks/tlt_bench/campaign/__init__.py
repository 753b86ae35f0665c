"""`tlt bench campaign`: disturb a running suite, and check that no response is lost or changed."""
