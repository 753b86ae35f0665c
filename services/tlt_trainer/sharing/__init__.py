"""Exchange between the trainers of a fleet: scores, publication, merges, and rest when training no longer pays off."""
