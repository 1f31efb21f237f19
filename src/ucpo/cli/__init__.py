"""The command line; each file holds a group of commands."""
