"""`tlt bench campaign`: disturbs a running suite and checks that no response is lost or changed."""
