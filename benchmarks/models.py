"""Models with a fixed response time: a reranker and a planner that speaks OpenAI's protocol.

`python -m benchmarks.models SECONDS QUERY...` serves both on a free loopback port. /rerank replies
after SECONDS. /v1/chat/completions replies at once with a plan of these queries.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from benchmarks.daemon import Server, running


@contextmanager
def serving(seconds: float, queries: Sequence[str]) -> Iterator[Server]:
    """Run the models in their own process."""
    with running("-m", "benchmarks.models", str(seconds), *queries) as server:
        yield server


def configuration(models: Server) -> str:
    """Return the daemon's configuration for these models, as TOML."""
    url = f"http://{models.address}"
    return f"""
[planner]
base_url = "{url}/v1"
model = "planner"
[[rerank.backends]]
kind = "http"
form = "vllm"
url = "{url}"
model = "reranker"
"""


def _scores(request: Any) -> Any:
    """Score documents by their length; the benchmark ignores the order."""
    scores = [len(document) % 100 / 100 for document in request["documents"]]
    return {"results": [{"index": i, "relevance_score": s} for i, s in enumerate(scores)]}


def _plan(request: Any, queries: Sequence[str]) -> Any:
    number = json.dumps(request["messages"][-1]).rpartition("#")[2].partition('"')[0].strip("\\")
    planned = [
        {"query": f"{query} {number}", "context_type": "resource", "intent": "", "priority": 1}
        for query in queries
    ]
    message = {"role": "assistant", "content": json.dumps({"reason": "", "queries": planned})}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "planner",
        "choices": [choice],
    }


def _main() -> None:
    seconds, queries = float(sys.argv[1]), sys.argv[2:]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path.endswith("/rerank"):
                time.sleep(seconds)
                reply = _scores(request)
            else:
                reply = _plan(request, queries)
            body = json.dumps(reply).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"models serving on 127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    _main()
