"""What trainers of a fleet have in common: scores, publication, merges, and rest when training no longer pays."""
