"""A module per form of log. Other packages use `reading`, which knows all forms."""
