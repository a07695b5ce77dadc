"""Write the workspace and the answers of a real OpenViking server.

python make_openviking.py OUT COMMAND...   COMMAND starts the server, without its --config

Models are a stand-in that speaks OpenAI's protocol on loopback. OUT gets `viking`, the tree of the
workspace, and `answers.json`, which has the status and the body of each GET by its path.
"""

from __future__ import annotations

import base64
import json
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

PORT = 18872
API = f"http://127.0.0.1:{PORT}"
DIMENSION = 8
SUMMARY = "# Harbour\n\nThe harbour and its lighthouse: opening hours and lamps."
FILES = {
    "resources/port/harbour.md": "# Harbour\n\nThe harbour opens at nine.\n",
    "resources/port/lamps/lighthouse.md": "# Lighthouse\n\nIts lamp turns once a minute.\n",
    "resources/port/灯塔.txt": "灯塔的灯每分钟转一圈。\n",
    "user/default/memories/preferences/tea.md": "The user drinks green tea in the morning.\n",
    "user/default/memories/profile.md": "Alice is a harbour pilot.\n",
}
SKILL = (
    "---\nname: mooring\ndescription: Moor a boat.\n---\n\n# Mooring\n\nTie the bow line first.\n"
)
KEPT = (
    "resources/port",
    "user/default/memories/preferences",
    "user/default/memories/profile.md",
    "user/default/sessions/s1",
    "user/default/skills/mooring",
)
"""The paths whose contents are kept; the others have only texts of OpenViking itself."""


class Models(BaseHTTPRequestHandler):
    """Answers requests for embeddings and chats."""

    def do_POST(self) -> None:
        """Answer one request."""
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        out: dict[str, Any] = {"model": asked["model"], "usage": usage}
        if "embeddings" in self.path:
            texts = asked["input"] if isinstance(asked["input"], list) else [asked["input"]]
            vector: Any = [1.0, *[0.0] * (DIMENSION - 1)]
            if asked.get("encoding_format") == "base64":
                vector = base64.b64encode(struct.pack(f"<{DIMENSION}f", *vector)).decode()
            out["object"] = "list"
            out["data"] = [
                {"object": "embedding", "index": i, "embedding": vector} for i in range(len(texts))
            ]
        else:
            message = {"role": "assistant", "content": SUMMARY}
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            out |= {"id": "1", "object": "chat.completion", "created": 1, "choices": [choice]}
        body = json.dumps(out).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write no log."""


def call(method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, str]:
    """Return status and body of a call."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(f"{API}{path}", data, {"content-type": "application/json"}, method=method)
    try:
        with urlopen(request, timeout=120) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def fill() -> None:
    """Write the contexts through the API."""
    call("POST", "/api/v1/fs/mkdir", {"uri": "viking://resources/port"})
    for path, content in FILES.items():
        given = {"uri": f"viking://{path}", "content": content, "mode": "create", "wait": True}
        status, body = call("POST", "/api/v1/content/write", given)
        assert status == 200, body
    status, body = call("POST", "/api/v1/skills", {"data": SKILL, "wait": True})
    assert status == 200, body
    call("POST", "/api/v1/sessions", {"session_id": "s1"})
    message = {"role": "user", "content": "When does the harbour open?"}
    call("POST", "/api/v1/sessions/s1/messages", message)
    for other, reason in (
        ("viking://user/default/memories/profile.md", "the pilot"),
        ("viking://user/default/sessions/s1", "was asked there"),
    ):
        link = {"from_uri": "viking://resources/port", "to_uris": [other], "reason": reason}
        call("POST", "/api/v1/relations/link", link)  # newer servers have no relations


def record() -> dict[str, tuple[int, str]]:
    """Return the answers to each request of an import."""
    answers: dict[str, tuple[int, str]] = {}

    def get(method: str, **parameters: str) -> Any:
        path = f"/api/v1/{method}?{urlencode(parameters)}"
        answers[path] = call("GET", path)
        return json.loads(answers[path][1])["result"]

    def walk(uri: str) -> None:
        for entry in get("fs/ls", uri=uri, **form):
            child = uri + entry["name"] if uri.endswith("//") else f"{uri}/{entry['name']}"
            if entry["isDir"]:
                walk(child)
            elif child.removeprefix("viking://").startswith(KEPT):
                get("content/read", uri=child, raw="true")

    form = {"output": "original", "show_all_hidden": "true", "node_limit": "1000000"}
    walk("viking://")
    return answers


def main() -> None:
    """Start the server, fill it and write its state."""
    out, command = Path(sys.argv[1]), sys.argv[2:]
    models = ThreadingHTTPServer(("127.0.0.1", 0), Models)
    threading.Thread(target=models.serve_forever, daemon=True).start()
    access = {
        "provider": "openai",
        "api_key": "none",
        "api_base": f"http://127.0.0.1:{models.server_port}/v1",
    }
    with tempfile.TemporaryDirectory() as scratch:
        settings = {
            "storage": {"workspace": f"{scratch}/workspace"},
            "embedding": {"dense": {**access, "model": "vectors", "dimension": DIMENSION}},
            "vlm": {**access, "model": "words"},
            "server": {"host": "127.0.0.1", "port": PORT},
        }
        config = Path(scratch, "ov.conf")
        config.write_text(json.dumps(settings))
        server = subprocess.Popen([*command, "--config", str(config)])
        try:
            for _ in range(100):
                time.sleep(0.3)
                try:
                    if call("GET", "/health")[0] == 200:
                        break
                except URLError:
                    continue
            fill()
            answers = record()
        finally:
            server.terminate()
            server.wait()
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        account = Path(scratch, "workspace/viking/default")
        for kept in KEPT:
            to = out / "viking/default" / kept
            to.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (account / kept).is_dir() else shutil.copy
            copy(account / kept, to)
        wanted = {path: answer for path, answer in answers.items() if "system" not in path}
        (out / "answers.json").write_text(json.dumps(wanted, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
