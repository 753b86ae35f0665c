"""`tlt bench load --minutes`: what a gateway and a coordinator keep of what is over. Others use `measure`."""
