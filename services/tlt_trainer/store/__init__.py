"""What a trainer reads from and writes to directories and object stores."""
