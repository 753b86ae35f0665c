"""The page's static files in the folder `page`, and no others. They contain no data, so they need no token."""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import Response

from tlt_common.errors import NotFoundError

FOLDER = Path(__file__).parent / "page"
INDEX = "index.html"
TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Types of the files that are served, by suffix."""
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
"""No scripts of others run in the page, and it sends data nowhere else. Browsers ask again each time, and get 304."""


class BundledFile:
    """A file of the page, read once."""

    def __init__(self, path: Path) -> None:
        self._content = path.read_bytes()
        self._type = TYPES[path.suffix]
        self._tag = f'"{sha256(self._content).hexdigest()[:32]}"'

    def answer(self, request: Request) -> Response:
        """Return the file, or a not-modified response."""
        headers = {**HEADERS, "ETag": self._tag}
        if self._tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(self._content, media_type=self._type, headers=headers)


def router_of(folder: Path = FOLDER) -> APIRouter:
    """Return the routes of the files in a folder, which are read now."""
    files = {path.name: BundledFile(path) for path in sorted(folder.glob("*")) if path.suffix in TYPES}
    router = APIRouter(include_in_schema=False)

    @router.get("/page/{file}")
    async def page(file: str, request: Request) -> Response:
        if file not in files:
            raise NotFoundError(f"the page has no file {file!r:.100}; accepted: {', '.join(files)}")
        return files[file].answer(request)

    @router.get("/")
    async def index(request: Request) -> Response:
        return await page(INDEX, request)

    return router
