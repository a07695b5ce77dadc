"""Downloads of models from a hub with Hugging Face's protocol, into the cache of its programs."""
