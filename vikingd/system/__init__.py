"""Services of the operating system: priorities, memory, files, descriptors, locks, signals."""
