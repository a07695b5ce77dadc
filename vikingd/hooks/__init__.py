"""Hooks that give coding agents a memory at their events, with only the standard library."""
