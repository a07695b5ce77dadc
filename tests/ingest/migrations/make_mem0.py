"""Write the memories that mem0 exports: python make_mem0.py OUT.json.

The embedder is a stand-in that speaks OpenAI's protocol on loopback. Nothing is inferred, so no
language model is asked.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path

os.environ["MEM0_TELEMETRY"] = "False"

from make_openviking import DIMENSION, Models

ADDED = (
    ("Drinks green tea in the morning.", "alice", "", {"category": "preferences"}),
    ("Two lines:\n- one\n- two", "alice", "", {"category": "preferences", "source": "chat"}),
    ("Is a harbour pilot.", "alice", "helper", None),
    ("The lamp turns once a minute. " * 60, "alice", "", {"category": "preferences"}),
    ("Answers in short sentences.", "", "helper", None),
    ("住在港口旁边。", "bob", "", {"category": "personal details"}),
)


def main() -> None:
    """Add memories, change one, and write what get_all returns."""
    models = ThreadingHTTPServer(("127.0.0.1", 0), Models)
    threading.Thread(target=models.serve_forever, daemon=True).start()
    access = {"api_key": "none", "openai_base_url": f"http://127.0.0.1:{models.server_port}/v1"}
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["MEM0_DIR"] = scratch
        from mem0 import Memory

        store = {"collection_name": "mem0", "path": f"{scratch}/chroma"}
        memory = Memory.from_config(
            {
                "embedder": {
                    "provider": "openai",
                    "config": {**access, "model": "m", "embedding_dims": DIMENSION},
                },
                "llm": {"provider": "openai", "config": {**access, "model": "none"}},
                "vector_store": {"provider": "chroma", "config": store},
                "history_db_path": f"{scratch}/history.db",
            }
        )
        first = ""
        for text, user, agent, metadata in ADDED:
            owner = {"user_id": user} if user else {}
            owner |= {"agent_id": agent} if agent else {}
            added = memory.add(text, infer=False, metadata=metadata, **owner)
            first = first or added["results"][0]["id"]
        memory.update(first, "Drinks black tea in the morning.")
        found = []
        for owner in ({"user_id": "alice"}, {"user_id": "bob"}, {"agent_id": "helper"}):
            found += memory.get_all(filters=owner, top_k=1000)["results"]
    text = json.dumps({"results": found}, ensure_ascii=False, indent=1)
    Path(sys.argv[1]).write_text(text + "\n")


if __name__ == "__main__":
    main()
