"""The lanes of calls: which queue and which thread each piece of a call has, and its deadline."""
