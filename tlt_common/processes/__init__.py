"""Child processes: started to die with their parent, stopped, and cleaned up."""
