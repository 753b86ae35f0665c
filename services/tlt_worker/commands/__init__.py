"""What `tlt engine` and `tlt fetch` run. Nothing imports it but the command line."""
