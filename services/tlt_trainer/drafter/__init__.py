"""The draft layer: its shape, its math, its loss, its optimizer and its files."""
