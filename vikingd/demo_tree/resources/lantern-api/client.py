"""A small client for the Lantern API that retries what is worth retrying."""

import json
import time
import urllib.error
import urllib.request

RETRIED = {429, 502, 503, 504}


def send(url, token, message, idempotency_key, attempts=4):
    """Posts a message; waits as the server asks, else twice as long after each attempt."""
    request = urllib.request.Request(url, json.dumps(message).encode(), method="POST")
    request.add_header("Authorization", f"Bearer {token}")
    request.add_header("Idempotency-Key", idempotency_key)
    attempt = 1
    while True:
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            if error.code not in RETRIED or attempt == attempts:
                raise
            time.sleep(float(error.headers.get("Retry-After", 2**attempt)))
            attempt += 1
