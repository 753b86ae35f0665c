"""The suite as verl's rollout server (written for verl 0.9.1). verl imports `plugin`; `router` is named in a file."""
