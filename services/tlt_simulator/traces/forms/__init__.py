"""A module for each form of logs. Others use `reading`, which knows all of them."""
