"""A running suite under load, and what must hold of it whatever happens: shared by the parts of the campaign."""
