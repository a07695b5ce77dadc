"""Models from a hub that speaks the protocol of Hugging Face's, in the cache of its programs."""
