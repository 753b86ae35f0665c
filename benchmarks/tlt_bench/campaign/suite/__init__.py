"""A running suite under load, and its invariants under any disturbance. Shared by the parts of the campaign."""
