"""The data of other programs as items of an import: Chroma, mem0, OpenViking and Parquet."""
