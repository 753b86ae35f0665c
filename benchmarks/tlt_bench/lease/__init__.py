"""How fast a spot trainer takes up a lease and gives the device back."""
