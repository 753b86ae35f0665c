"""Child processes: started to die with their parent, ended, and cleaned up after."""
