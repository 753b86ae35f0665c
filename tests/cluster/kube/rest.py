"""The API server over plain HTTPS, as the user of a kubeconfig."""

import http.client
import json
import ssl
import urllib.parse
from pathlib import Path
from typing import Any

TIMEOUT_S = 10.0
MERGE = "application/merge-patch+json"


class RestError(Exception):
    """The API server refused; `status` is its HTTP code."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Rest:
    """One connection for each call: simple, and never stale."""

    def __init__(self, kubeconfig: Path) -> None:
        config = json.loads(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._address = urllib.parse.urlsplit(cluster["server"]).netloc
        self._context = ssl.create_default_context(cafile=cluster["certificate-authority"])
        self._headers = {}
        if "token" in user:
            self._headers["Authorization"] = f"Bearer {user['token']}"
        else:
            self._context.load_cert_chain(user["client-certificate"], user["client-key"])

    def get(self, path: str) -> bytes:
        return self._call("GET", path)

    def items(self, path: str) -> list[dict[str, Any]]:
        """The items of a list."""
        found: list[dict[str, Any]] = json.loads(self.get(path))["items"]
        return found

    def create(self, path: str, body: object) -> dict[str, Any]:
        """POST an object to its collection."""
        return self._object("POST", path, body)

    def merge(self, path: str, body: object) -> dict[str, Any]:
        """Merge a patch into an object, or into its status."""
        return self._object("PATCH", path, body, MERGE)

    def delete(self, path: str, *, missing_ok: bool = True) -> None:
        """Delete an object, with what it owns in the background."""
        try:
            self._call("DELETE", path, {"propagationPolicy": "Background"})
        except RestError as error:
            if error.status != http.client.NOT_FOUND or not missing_ok:
                raise

    def _object(self, method: str, path: str, body: object, kind: str = "application/json") -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._call(method, path, body, kind))
        return found

    def _call(self, method: str, path: str, body: object = None, kind: str = "application/json") -> bytes:
        connection = http.client.HTTPSConnection(self._address, context=self._context, timeout=TIMEOUT_S)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, body=data, headers={**self._headers, "Content-Type": kind})
            reply = connection.getresponse()
            text = reply.read()
        finally:
            connection.close()
        if reply.status >= http.client.BAD_REQUEST:
            raise RestError(reply.status, text.decode(errors="replace"))
        return text
