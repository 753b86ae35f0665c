"""Kill, stop and terminate every kind of process of a suite under load, and cut its clients' connections."""
