"""What an agent remembers: memory files, and how a memory is found without search."""
