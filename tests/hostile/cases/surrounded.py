"""Headers, connections, and bytes that are no HTTP."""

import gzip

from tests.hostile.case import Case

GOOD = {"input_ids": [4], "sampling_params": {"max_new_tokens": 2}}
BODY = b'{"input_ids": [4], "sampling_params": {"max_new_tokens": 2}}'
POST = b"POST /generate HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
LENGTH = b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n"
GET = b"GET /v1/models HTTP/1.1\r\nHost: a\r\n"


def headed(name: str, header: str, value: str, status: int = 400, param: str | None = None) -> Case:
    """Return a case with one more header."""
    found = header if param is None else param
    return Case(name=name, headers={header: value}, body=GOOD, status=status, param=found if status == 400 else "")


CASES = [
    headed("gzip", "Content-Encoding", "gzip"),
    Case(name="gzip that is", headers={"Content-Encoding": "gzip"}, content=gzip.compress(BODY), param="Content-Encoding"),
    Case(name="a bomb", headers={"Content-Encoding": "gzip"}, content=gzip.compress(bytes(10**8)), param="Content-Encoding"),
    headed("deflate", "Content-Encoding", "deflate"),
    headed("br, gzip", "Content-Encoding", "br, gzip"),
    headed("a long encoding", "Content-Encoding", "a" * 10_000),
    headed("identity", "Content-Encoding", "identity", 200),
    headed("a form in parts", "Content-Type", "multipart/form-data; boundary=a"),
    headed("UTF-16", "Content-Type", "application/json; charset=utf-16"),
    headed("Latin-1", "Content-Type", 'application/json; charset="iso-8859-1"'),
    headed("UTF-8", "Content-Type", "application/json; charset=UTF-8", 200),
    headed("what curl says", "Content-Type", "application/x-www-form-urlencoded", 200),
    headed("plain text", "Content-Type", "text/plain", 200),
    headed("no type", "Content-Type", "", 200),
    headed("a session of many letters", "X-Session-ID", "a" * 5000),
    headed("a session of control characters", "X-Session-ID", "a\tb"),
    headed("a session in Latin-1", "X-Session-ID", "\xa0"),
    headed("a host that is none", "Host", "[::1"),
    headed("a host of blanks", "Host", "a b"),
    headed("a host with a path", "Host", "a/b"),
    headed("a host with a port that is none", "Host", "a:b"),
    headed("a host of many letters", "Host", "a" * 10_000 + ":x"),
    headed("an expectation", "Expect", "100-continue", 200),
    headed("an upgrade", "Upgrade", "websocket", 200),
    headed("an upgrade to HTTP/2", "Upgrade", "h2c", 200),
    headed("a range", "Range", "bytes=0-1", 200),
    headed("a token that nobody asked for", "Authorization", "Bearer a", 200),
    headed("a token in Latin-1", "Authorization", "Bearer \xe9", 200),
    headed("another method in a header", "X-HTTP-Method-Override", "DELETE", 200),
    headed("a forwarded host", "X-Forwarded-Host", "example.com", 200),
    *(
        Case(name=f"{header.decode()} twice", raw=POST + header + b": a\r\n" + header + b": a\r\n" + LENGTH, param=header.decode())
        for header in (b"Authorization", b"Content-Type", b"X-Session-ID", b"X-SMG-Routing-Key", b"Content-Encoding", b"Host")
    ),
    Case(name="two sessions", raw=POST + b"X-Session-ID: a\r\nX-SMG-Routing-Key: b\r\n" + LENGTH, param="X-Session-ID"),
    Case(name="a length that is none", raw=POST + b"Content-Length: x\r\n\r\n" + BODY),
    Case(name="a negative length", raw=POST + b"Content-Length: -1\r\n\r\n" + BODY),
    Case(name="a length with a plus", raw=POST + b"Content-Length: +5\r\n\r\n" + BODY),
    Case(name="a length of 5000 digits", raw=POST + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n"),
    Case(name="a length of 19 digits", raw=POST + b"Content-Length: " + b"9" * 19 + b"\r\n\r\n", status=413, param="body"),
    Case(name="two lengths", raw=POST + b"Content-Length: 5\r\n" + LENGTH),
    Case(name="a length beside chunks", raw=POST + b"Transfer-Encoding: chunked\r\n" + LENGTH),
    Case(name="an unknown transfer encoding", raw=POST + b"Transfer-Encoding: gzip\r\n\r\n" + BODY, status=(400, 0)),
    Case(name="chunks", raw=CHUNKED + b"\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY), status=200),
    Case(name="chunks of one byte", raw=CHUNKED + b"\r\n" + b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n", status=200),
    Case(name="a chunk whose size is none", raw=CHUNKED + b"\r\nx\r\n" + BODY + b"\r\n0\r\n\r\n", status=(400, 0, 499)),
    Case(name="a chunk of all bytes there are", raw=CHUNKED + b"\r\nffffffffffffffffffff\r\n" + BODY, status=(400, 0, 499)),
    Case(name="an extension of 10 MB", raw=CHUNKED + b"\r\n1;" + b"a" * 10**7, status=(431, 0)),
    Case(name="headers behind chunks of 10 MB", raw=CHUNKED + b"\r\n0\r\n" + b"a: b\r\n" * 10**6, status=(200, 400, 431, 0)),
    Case(name="a header of 10 MB", raw=POST + b"a: " + b"b" * 10**7, status=(431, 0)),
    Case(name="a header's name of 10 MB", raw=POST + b"a" * 10**7, status=(431, 0)),
    Case(name="a header of 100 KiB", raw=POST + b"a: " + b"b" * 100_000 + b"\r\n" + LENGTH, status=431, param="headers"),
    Case(name="a million headers", raw=POST + b"a: b\r\n" * 10**6 + LENGTH, status=(431, 0), param="headers"),
    Case(name="200 headers", raw=POST + b"a: b\r\n" * 200 + LENGTH, status=431, param="headers"),
    Case(name="50 headers", raw=POST + b"a: b\r\n" * 50 + LENGTH, status=200),
    Case(name="an address of 10 MB", raw=b"GET /" + b"a" * 10**7, status=(431, 0)),
    Case(name="an address of 100 KiB", raw=b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", status=431, param="headers"),
    Case(name="a header without a colon", raw=POST + b"nothing\r\n" + LENGTH),
    Case(name="a header with a blank before its colon", raw=POST + b"a : b\r\n" + LENGTH),
    Case(name="a header with NUL", raw=POST + b"a: \x00\r\n" + LENGTH),
    Case(name="a header that is folded", raw=POST + b"a: b\r\n c\r\n" + LENGTH, status=(200, 400)),
    Case(name="lines that end in LF", raw=POST.replace(b"\r\n", b"\n") + b"\n", status=(400,)),
    Case(name="HTTP/0.9", raw=b"GET /v1/models\r\n\r\n", status=(200, 400)),
    Case(name="HTTP/1.0", raw=b"GET /v1/models HTTP/1.0\r\n\r\n", status=200),
    Case(name="HTTP/2", raw=b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    Case(name="HTTP/9.9", raw=b"GET /v1/models HTTP/9.9\r\n\r\n", status=(400, 200)),
    Case(name="no host", raw=b"GET /v1/models HTTP/1.1\r\nConnection: close\r\n\r\n", status=(200, 400)),
    Case(name="TLS", raw=b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(512)),
    Case(name="SSH", raw=b"SSH-2.0-OpenSSH_9.6\r\n"),
    Case(name="Redis", raw=b"*1\r\n$4\r\nPING\r\n"),
    Case(name="NUL bytes on a socket", raw=bytes(10_000)),
    Case(name="random bytes", raw=bytes((place * 7919) % 256 for place in range(10_000))),
    Case(name="gRPC on the port of HTTP", raw=b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"),
    Case(name="empty lines before the request", raw=b"\r\n\r\n" + GET + b"Connection: close\r\n\r\n", status=200),
    Case(name="10 requests at once", raw=(GET + b"\r\n") * 9 + GET + b"Connection: close\r\n\r\n", status=200),
    Case(name="10,000 requests at once", raw=(GET + b"\r\n") * 10_000, status=(200, 400, 0)),
    Case(name="a request within a body", raw=POST + b"Content-Length: %d\r\n\r\n" % len(GET) + GET, param="body"),
    Case(name="50 large bodies at once", raw=POST + b"Content-Length: 2000000\r\n\r\n" + b'{"text": "' + b"a" * 1_999_988 + b'"}', times=50, param="text"),
]  # fmt: skip
