"""vikingd on arm64, emulated: see `python -m tests.arm64 --help`."""
