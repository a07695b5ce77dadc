"""Tests of embedders, rerankers, tokenizers and pulls of models."""
