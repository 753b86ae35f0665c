"""Reads the lengths that trainers and journals write; texts never leave a reader."""
