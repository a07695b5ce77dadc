"""Plans: checked queries compiled for a caller and for one snapshot."""
