"""The draft layer: model, loss, optimizer and files."""
